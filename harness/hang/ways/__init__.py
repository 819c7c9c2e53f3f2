"""The ways in: each reaches some processes and has them sampled.

A way in is one file with a function ``find(…) -> list[Way]`` that says which there are, quickly and without sampling:

``here``        this PID namespace
``containers``  Docker containers, each by a probe beside it
``samplers``    the same from inside ``dev``, which has no Docker
``ray_nodes``   every node of a Ray cluster
``via``         any machine that a command leads to

A way doesn't decide and doesn't merge; it hands on what ``harness.processes.sampling.take`` answered over there.
``SampleRequest.pids`` are numbers of this machine, so a way to somewhere else leaves them out.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from harness.processes.sampling.model import NodeAnswer, SampleRequest


class Unreachable(Exception):
    """A way leads nowhere now; the reason is told, and nobody waits for it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Way(Protocol):
    """One place whose processes can be sampled."""

    @property
    def name(self) -> str:
        """What a person calls it: a host, a container, a node."""

    def sample(self, request: SampleRequest, deadline: float) -> NodeAnswer:
        """Have it sampled; blocks until it is done. Called in a thread of its own.

        Args:
            request: what to sample there.
            deadline: by ``time.monotonic()``; the caller turns away then. The way ends what it has started by itself.

        Raises:
            Unreachable: it can't be asked.
        """


@runtime_checkable
class Stoppable(Protocol):
    """A way that can be broken off; it should, wherever it starts something that Ctrl-C doesn't reach."""

    def stop(self) -> None:
        """Come back from ``sample`` soon and leave nothing behind; called from another thread, at any time."""
