"""What ``FIX=1`` offers: commands of findings that may be run without a second thought, each once, in a sensible order.

``plan`` decides and is pure; ``run`` runs one command. No shell reads any of it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.doctor.findings import Finding

State = Literal["offered", "declined", "done", "failed"]
# Docker first, for all others need it; what is broken is removed before `up` makes it anew.
ORDER = ("scripts/ensure-docker.sh", "chmod", "rm", "docker", "harness")
# Nothing else is ever run, whatever a finding says.
ALLOWED = frozenset(ORDER)


@dataclass(frozen=True)
class Fix:
    """One command.

    Attributes:
        mends: what the findings say that it mends.
    """

    command: tuple[str, ...]
    mends: tuple[str, ...]

    def shown(self) -> str:
        """As people type it."""
        if self.command[0] == "harness":
            return shlex.join(("make", *self.command[1:]))
        return "make docker" if self.command[0] == "scripts/ensure-docker.sh" else shlex.join(self.command)


@dataclass(frozen=True)
class Fixed:
    """What became of one."""

    fix: Fix
    state: State
    code: int | None = None

    def as_dict(self) -> dict[str, object]:
        """For ``--json``."""
        return {"command": self.fix.shown(), "mends": list(self.fix.mends), "state": self.state, "exit_code": self.code}


def plan(findings: Iterable[Finding]) -> list[Fix]:
    """The commands that findings offer, each once."""
    mends: dict[tuple[str, ...], list[str]] = {}
    for finding in findings:
        if finding.fix and finding.fix[0] in ALLOWED and finding.sign in ("bad", "warn"):
            mends.setdefault(finding.fix, []).append(finding.text)
    ordered = sorted(mends.items(), key=lambda item: ORDER.index(item[0][0]))
    return [Fix(command, tuple(texts)) for command, texts in ordered]


def run(fix: Fix, clone: Path, settings: Mapping[str, str]) -> Fixed:
    """Run one command to its end; what it prints goes where a person sees it, never among a JSON document.

    Args:
        clone: where a script of ours lies.
        settings: for verbs of ours, by the environment's names; those that this shell has set win.
    """
    command = list(fix.command)
    environment = {**os.environ, "DRYDOCK_YES": "1"}
    for name in ("JSON", "FIX", "TOPIC"):
        environment.pop(name, None)
    if command[0] == "harness":
        command[0] = str(Path(sys.executable).with_name("harness"))
        environment = {**settings, **environment}
    elif command[0].startswith("scripts/"):
        command[0] = str(clone / command[0])
    try:
        done = subprocess.run(command, env=environment, stdout=sys.stderr, stdin=subprocess.DEVNULL, check=False)
    except OSError:
        return Fixed(fix, "failed")
    return Fixed(fix, "done" if done.returncode == 0 else "failed", done.returncode)
