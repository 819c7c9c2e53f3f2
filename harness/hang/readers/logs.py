"""Picks out of log lines what bears on a hang: watchdogs, tracebacks, killed processes, missing resources."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from harness.hang.model import Hint
from harness.hang.readers.digits import whole

_MOST_OF_A_KIND = 200

# A cheap word that must be in the line, the kind, and the pattern; the pattern's named groups become numbers.
_PATTERNS: list[tuple[str, str, re.Pattern[str]]] = [
    (word, kind, re.compile(pattern))
    for word, kind, pattern in [
        (
            "WorkNCCL",
            "watchdog",
            r"(?:\[Rank (?P<rank>\d+)\].*?)?WorkNCCL\(SeqNum=(?P<sequence>\d+), OpType=\w+, "
            r"NumelIn=(?P<inputs>\d+), NumelOut=(?P<outputs>\d+)",
        ),
        (
            "store based barrier",
            "store-barrier",
            r"store based barrier.*?rank: (?P<rank>\d+).*?world_size=(?P<world>\d+), worker_count=(?P<joined>\d+)",
        ),
        ("clients joined", "init-timeout", r"(?P<joined>\d+)/(?P<world>\d+) clients joined"),
        (
            "mismatch between collectives",
            "fingerprint",
            r"Detected mismatch between collectives on ranks.*?Rank (?P<rank>\d+) is running",
        ),
        ("Exception in thread", "thread-died", r"^\s*Exception in thread (?P<name>.+?):?\s*$"),
        ("never retrieved", "task-died", r"(?:Task|Future) exception was never retrieved"),
        # An exception as `%r` writes it, by whoever has caught it.
        ("Error(", "failure", r"\b[A-Za-z_]\w*Error\("),
        ("Exception(", "failure", r"\b[A-Za-z_]\w*Exception\("),
        ("Killed process", "oom", r"[Oo]ut of memory.*?Killed process (?P<pid>\d+)"),
        ("oom", "oom", r"oom-kill|oom_kill"),
        ("OOMKilled", "oom", r"OOMKilled"),
        ("still not local", "ray-lost", r"still not local after (?P<seconds>\d+)s"),
        ("died", "ray-died", r"[Aa] worker died|ActorDiedError|actor died"),
        ("Error", "ray-died", r"RayActorError|WorkerCrashedError"),
        ("can fulfill", "ray-resources", r"No available node types can fulfill"),
        ("be scheduled", "ray-resources", r"(?:cannot|can't|can not) be scheduled"),
        ("deadlock", "ray-resources", r"resource deadlock"),
        (
            "shared memory broadcast",
            "queue-wait",
            r"No available shared memory broadcast block found in (?P<seconds>\d+)",
        ),
        ("NCCL version", "nccl-version", r"NCCL version (?P<major>\d+)\.(?P<minor>\d+)\.(?P<patch>\d+)"),
        ("Training", "finished", r"Training (?:completes?d?|finished|done)\b"),
    ]
]
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Failure|Warning)\b(?:: .*)?$")


@dataclass
class Hints:
    """Collects hints line by line; ``source`` and ``rank`` say whose log is being read."""

    found: list[Hint] = field(default_factory=list)
    source: str = ""
    rank: int | None = None
    _counts: dict[tuple[str, int | None], int] = field(default_factory=dict)
    _in_traceback: bool = False

    def feed(self, line: str, rank: int | None = None) -> None:
        """Look at one line that isn't part of a stack."""
        rank = self.rank if rank is None else rank
        if "Traceback (most recent call last)" in line:
            self._in_traceback = True
            return
        if self._in_traceback:
            if not line[:1].isspace() and _EXCEPTION.match(line):
                self._in_traceback = False
                self._add("traceback", line, rank, {})
                return
            if not line[:1].isspace():
                self._in_traceback = False
        for word, kind, pattern in _PATTERNS:
            if word in line and (match := pattern.search(line)):
                groups = match.groupdict()
                numbers = {name: whole(value) for name, value in groups.items() if value and value.isdecimal()}
                self._add(kind, line, numbers.get("rank", rank), numbers)

    def _add(self, kind: str, line: str, rank: int | None, numbers: dict[str, int]) -> None:
        key = (kind, rank)
        self._counts[key] = self._counts.get(key, 0) + 1
        if self._counts[key] <= _MOST_OF_A_KIND and len(self.found) < 20_000:
            self.found.append(Hint(kind, line.strip()[:400], rank, self.source, numbers))
