"""What a check is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.doctor.context import Context
from harness.doctor.findings import Finding


@dataclass(frozen=True)
class Check:
    """One question that the doctor asks.

    Attributes:
        id: ``TOPIC.NAME``; people see it when a check fails, programs in the JSON document.
        look: asks the question; runs in a thread of its own beside all others.
        limit: seconds after which it is no longer waited for.
        limit_on_request: the same where its topic is asked for by name; 0: no other.
    """

    id: str
    look: Callable[[Context], list[Finding]]
    limit: float = 3.0
    limit_on_request: float = 0.0

    @property
    def topic(self) -> str:
        """The topic under which its findings are shown."""
        return self.id.partition(".")[0]
