"""This PID namespace: this machine with its containers as root sees them, or this container."""

from __future__ import annotations

import threading

from harness.hang.local_values import hide_secrets
from harness.hang.ways import Way
from harness.processes.sampling.facts import host
from harness.processes.sampling.model import NodeAnswer, SampleRequest
from harness.processes.sampling.take import Sampling


class Here:
    """The processes that this one sees."""

    # Nothing lies in between that could hang: it keeps to the request's own limit.
    ends_itself = True

    def __init__(self) -> None:
        self.name = host()
        self._sampling: Sampling | None = None
        self._asked = threading.Event()

    def wait_busy(self, seconds: float) -> None:
        """Wait until all that is to be done in this process is done, and others work; at the most so long."""
        if self._asked.wait(seconds) and self._sampling is not None:
            self._sampling.begun.wait(seconds)

    def sample(self, request: SampleRequest, deadline: float) -> NodeAnswer:  # noqa: ARG002
        """Sample them in this process; the request carries its own time limit."""
        self._sampling = Sampling(request)
        self._asked.set()
        answer = self._sampling.run()
        return hide_secrets(answer) if request.locals else answer

    def stop(self) -> None:
        """End all dumpers; what one of them has left stopped is woken."""
        if self._sampling is not None:
            self._sampling.stop()


def find() -> list[Way]:
    """Always there."""
    return [Here()]
