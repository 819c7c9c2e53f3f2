"""Looks at a program again and again, dumps it when nothing gets on, and tells; never ends what it watches."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import console
from harness.errors import DrydockError
from harness.hang import keep
from harness.hang.collect import Collected, collect
from harness.hang.decide import diagnose
from harness.hang.model import Dump
from harness.hang.page import NAME, build
from harness.hang.page.write import now
from harness.hang.verdict import Verdict
from harness.hang.watch import notify
from harness.hang.watch.alarm import is_hung
from harness.hang.watch.looks import Looker
from harness.hang.watch.quiet import Quiet
from harness.hang.ways import here
from harness.printable import printable_all
from harness.processes.sampling.find import find
from harness.processes.sampling.model import SampleRequest
from harness.processes.tree import descendants_of, read_stats
from harness.runs import Redactor
from harness.runs.environment import secrets_of

# A look each tenth of AFTER, but neither more often nor more rarely than this.
_SHORTEST, _LONGEST = 1.0, 30.0
# Between the two dumps that have to agree.
_BETWEEN = 5.0


@dataclass
class Hang:
    """One that somebody is told of.

    Attributes:
        quiet_seconds: for how long nothing had got on.
        folder: where stacks, verdict and page are; None where they couldn't be kept.
    """

    verdict: Verdict
    quiet_seconds: float
    folder: Path | None

    def told(self) -> dict[str, Any]:
        """What the command and the webhook get."""
        verdict = self.verdict
        who = ", ".join(verdict.laggards[:8])
        title = f"Hung: {verdict.title}" if verdict.hangs else f"No progress: {verdict.title}"
        text = f"{title}{f' ({who})' if who else ''}; nothing got on for {self.quiet_seconds:.0f} s"
        return {
            "text": text, "state": verdict.state, "cause": verdict.cause, "confidence": verdict.confidence,
            "laggards": verdict.laggards, "evidence": verdict.evidence[:6],
            "folder": "" if self.folder is None else str(self.folder),
        }  # fmt: skip


@dataclass
class Watching:
    """One program being watched.

    Args:
        request: whom it is about, as for a dump.
        after: seconds without progress after which it is dumped.
        tell: called with each hang.
        any_standstill: tell also of one whose cause is unknown; whoever is idle is still left alone.
    """

    request: SampleRequest
    after: float
    runs: Path
    tell: Callable[[Hang], None]
    logs: Sequence[str] = ()
    step: str = ""
    any_standstill: bool = False
    clock: Callable[[], float] = time.monotonic
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Look until ``over`` is set, or everybody has ended."""
        looker, quiet = Looker(self.logs, self.step), Quiet()
        pause = min(_LONGEST, max(_SHORTEST, self.after / 10))
        told, roots = False, self._roots()
        while not self.over.is_set():
            # Whom a pattern means may come and go; a number stays who it is.
            roots = roots if self.request.pids else self._roots()
            pids = [pid for pid in self._with_descendants(roots) if pid != os.getpid()]
            look = looker.look(pids, self.clock())
            if not look.cpu and self.request.pids:
                return
            spent = quiet.take(look)
            if spent == 0:
                told = False  # it gets on: the next hang is news again
            elif spent >= self.after and not told and look.cpu:
                hang = self._examine(spent)
                if hang is not None:
                    told = True
                    self.tell(hang)
                quiet.forget(look)
            self.over.wait(pause)

    def _roots(self) -> list[int]:
        return self.request.pids or [entry.pid for entry in find(self.request).entries if not entry.missing]

    def _with_descendants(self, roots: Sequence[int]) -> list[int]:
        stats = read_stats()
        return [pid for pid in roots if pid in stats] + [pid for pid in descendants_of(roots, stats)]

    def _examine(self, spent: float) -> Hang | None:
        """Dump it twice; a hang that both show."""
        first = self._dump()
        if first is None or self.over.wait(_BETWEEN):
            return None
        second = self._dump()
        if second is None:
            return None
        collected, dump, verdict = second
        if not is_hung(first[1:], second[1:], bool(self.step) or self.any_standstill):
            states = " and ".join(dict.fromkeys([first[2].state, verdict.state]))
            console.aside(f"{now()}  quiet for {spent:.0f} s, and no sure hang: {states}")
            return None
        return Hang(verdict, spent, self._keep(collected, dump, verdict))

    def _dump(self) -> tuple[Collected, Dump, Verdict] | None:
        collected = collect(here.find(), self.request)
        if not collected.dumps_of_stacks:
            console.aside(
                f"{now()}  nobody could be sampled: {'; '.join(collected.manifest.notes) or 'they have ended'}"
            )
            return None
        return collected, collected.dump, diagnose(collected.dump)

    def _keep(self, collected: Collected, dump: Dump, verdict: Verdict) -> Path | None:
        redactor = Redactor(secrets_of(dict(os.environ)))
        page = build(verdict, dump, redactor, made=now(), environment=collected.manifest.environment)
        try:
            return keep.keep(self.runs, collected, redactor.data(printable_all(verdict.as_dict())), redactor, page)
        except DrydockError as error:
            console.show_error(error)
            return None


def teller(command: str, webhook: str, show: Callable[[Hang], None]) -> Callable[[Hang], None]:
    """Shows each hang, then runs the command and asks the webhook; what fails is said."""

    def tell(hang: Hang) -> None:
        show(hang)
        told = hang.told()
        problems = [notify.run_command(command, told) if command else "", notify.post(webhook, told) if webhook else ""]
        for problem in filter(None, problems):
            console.warn(problem)

    return tell


def page_of(hang: Hang) -> str:
    """Where its page is; "" where it couldn't be kept."""
    return f"{hang.folder}/{NAME}" if hang.folder is not None else ""
