"""This PID namespace: this machine with its containers as root sees them, or this container."""

from __future__ import annotations

from harness.hang.local_values import hide_secrets
from harness.hang.ways import Way
from harness.processes.sampling.facts import host
from harness.processes.sampling.model import NodeAnswer, SampleRequest
from harness.processes.sampling.take import Sampling


class Here:
    """The processes that this one sees."""

    def __init__(self) -> None:
        self.name = host()
        self._sampling: Sampling | None = None

    def sample(self, request: SampleRequest, deadline: float) -> NodeAnswer:  # noqa: ARG002
        """Sample them in this process; the request carries its own time limit."""
        self._sampling = Sampling(request)
        answer = self._sampling.run()
        return hide_secrets(answer) if request.locals else answer

    def stop(self) -> None:
        """End all dumpers; what one of them has left stopped is woken."""
        if self._sampling is not None:
            self._sampling.stop()


def find() -> list[Way]:
    """Always there."""
    return [Here()]
