"""The decided result: what a person reads and what ``--json`` prints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

State = Literal["hung", "slow", "idle", "done", "unknown"]
Confidence = Literal["certain", "likely", "undecided"]


@dataclass
class GroupRow:
    """Processes at the same lines.

    Attributes:
        who: in few words (``ranks 0-6,9``).
        stack: without wrappers, innermost first.
        coarse: number of the coarser group (same functions and files) that it belongs to.
        threads: the other threads of one of them, those at equal lines together: their names, and their stack.
    """

    who: str
    ids: list[str]
    role: str
    kind: str
    wait: str
    progress: str
    state: str
    stack: list[str]
    coarse: int = 0
    threads: list[tuple[str, list[str]]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "who": self.who, "count": len(self.ids), "role": self.role, "kind": self.kind, "wait": self.wait,
            "progress": self.progress, "state": self.state, "coarse": self.coarse, "stack": self.stack,
            "threads": [{"names": names, "stack": stack} for names, stack in self.threads],
        }  # fmt: skip


@dataclass
class ProcessRow:
    """One process in a line."""

    id: str
    role: str
    pid: int
    rank: int | None
    host: str
    container: str
    state: str
    group: int | None
    note: str

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "id": self.id, "role": self.role, "pid": self.pid, "rank": self.rank, "host": self.host,
            "container": self.container, "state": self.state, "group": self.group, "note": self.note,
        }  # fmt: skip


@dataclass
class Verdict:
    """What a dump means.

    Attributes:
        cause: the likeliest code, also when undecided; ``none``: nothing hangs; ``unknown``: nothing can be said.
        candidates: the two codes between which it is undecided; else the cause alone.
        runners_up: further codes that were considered, with their scores.
        elsewhere: where the mistake may sit when that isn't where it hangs.
        next: commands and looks, the most telling first.
        gap: seconds between two samples that would tell whether who sleeps gets on; None where nobody does.
    """

    state: State
    cause: str
    confidence: Confidence
    candidates: list[str]
    laggards: list[str] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    next: list[str] = field(default_factory=list)
    title: str = ""
    means: str = ""
    elsewhere: str = ""
    runners_up: dict[str, float] = field(default_factory=dict)
    groups: list[GroupRow] = field(default_factory=list)
    processes: list[ProcessRow] = field(default_factory=list)
    tree: list[dict[str, Any]] = field(default_factory=list)
    recorder: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    gap: int | None = None

    @property
    def hangs(self) -> bool:
        """Whether something does."""
        return self.state == "hung"

    def as_dict(self) -> dict[str, Any]:
        """One object with everything."""
        return {
            "state": self.state, "cause": self.cause, "confidence": self.confidence, "candidates": self.candidates,
            "laggards": self.laggards, "title": self.title, "means": self.means, "elsewhere": self.elsewhere,
            "evidence": self.evidence, "next": self.next, "runners_up": self.runners_up,
            "groups": [group.as_dict() for group in self.groups], "tree": self.tree, "recorder": self.recorder,
            "processes": [process.as_dict() for process in self.processes], "notes": self.notes,
        }  # fmt: skip
