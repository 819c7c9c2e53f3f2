"""``make bench-hang``: how often the verdict is right, on programs that really hang and on recorded hangs.

Every program of ``examples/hangs`` is started under the neutral name ``main.py``, sampled twice and ended; its truth
was committed before a verdict on it was seen. Writes ``docs/hang-accuracy.md``; names on the command line choose
programs and write nothing.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from harness.errors import DrydockError, LibraryMissing
from harness.hang.collect import collect
from harness.hang.decide import diagnose
from harness.hang.ways import here
from harness.hang.zoo import judge
from harness.hang.zoo.interpreter import python_with
from harness.hang.zoo.program import APART, Program, programs
from harness.hang.zoo.run import running
from harness.processes.sampling.model import SampleRequest
from tests.support.hang_cases import Case, Score, scores, table
from tests.support.harness import CLONE

ZOO = CLONE / "examples/hangs"
PAGE = CLONE / "docs/hang-accuracy.md"
_APART = {
    "ten": "ten by somebody who knew no rule",
    "second_ten": "ten by somebody else who knew no rule",
    "third_ten": "ten that somebody met on call",
    "from_issues": "ten after public issues",
    "fourth_ten": "ten more from a stranger's day on call",
}
RECORDED = ("recorded", "recorder", "public", "own", "later", "live", "healthy")

# What was seen when the rules had never met these programs; later runs can't be blind any more.
_BLIND = (
    "## Blind",
    "",
    "The first run on these programs, before any rule was changed after it: cause 28 of 51, laggards 43 of 51, false",
    "alarms 4 of 12, one certain and wrong. On the ten: cause 2 of 8, laggards 6 of 8, one false alarm of 2, none",
    "certain and wrong. The rules have learnt from the zoo since, so its figures above say what they know, not how",
    "they do on the next program. The first ten have been seen by now: two rules were changed after them (a task in an",
    "executor's thread, a tool that polls), and later two more (who is in a process group, a server of one thread).",
    "",
    "The second ten, by another stranger, met rules that had never met them: cause 5 of 8, laggards 5 of 8, both that",
    "are well called hung, none certain and wrong. (Two of the eight were judged after the rules below were made.)",
    "Five rules were made after that: a thread that leaves its collective between two looks, or works between two naps,",  # noqa: E501
    "gets on; two threads of a process in collectives; a queue whose readers all wait for its lock; a program that polls",  # noqa: E501
    "for what its log says has failed.",
    "",
    "The ten after public issues: their truth was committed before any verdict on them. But whoever wrote them knew",
    "the rules, which the writer of the first ten did not. Their first score, by rules that had learnt from the zoo",
    "and not from them: cause 4 of 7, laggards 5 of 7, one false alarm of 2 (an environment that computes long), none",
    "certain and wrong; one of the seven, under Ray, was judged from its recorded dump, and the eighth was not run: it",
    "ended, as Ray's `get` raises for the first that fails, until it was made to wait for all.",
    "Three rules were changed after that: threads that wait for each other, a child whose queue nobody reads, a worker",
    "that computes at other lines.",
    "",
    "The third ten are jobs of a stranger who played somebody on call. They were chosen among 23 of his afterwards: those",  # noqa: E501
    "that need containers were left out, and most were kept because the verdict had been wrong. What he saw: of the seven",  # noqa: E501
    "that hang the cause of four was right, two were called unknown (a thread alone at a queue; a server whose loop is",
    "held up, where it was named by its PID), one was certain and wrong (a full pipe, with a launcher in the dump). All",  # noqa: E501
    "three that only compute raised an alarm. The figures above are of rules that were changed after that: who computes",  # noqa: E501
    "is slow; the interpreter's lock is held in every sample or isn't; a wait inside a callback of asyncio's; the last",
    "thread at a queue; workers that were forked while a lock was taken.",
    "",
    "The fourth ten came of another day on call: five on which the verdict had been wrong, written down anew, and five of",  # noqa: E501
    "their kind; whoever wrote them knew the rules. Their first score: cause 1 of 5, laggards 2 of 5, three false alarms",  # noqa: E501
    "of 5, none certain and wrong. The figures above are of rules that were changed after that: who sleeps until a",
    "moment that it has named itself, locks between threads by their source, a future that only a heartbeat could bring.",  # noqa: E501
    "",
    "One healthy program of these, `ok_map_on_main`, was called hung (undecided between python-loop and straggler) in one",  # noqa: E501
    "of five runs: long work in Python, met at lines of one function at every look, looks like a loop without end.",
)


@dataclass
class Live:
    """A program's score.

    Attributes:
        seconds: from the command to the verdict, two samples and the gap between them included.
    """

    score: Score
    seconds: float

    @property
    def right(self) -> bool:
        """Where nothing hangs, the one thing that counts is that nobody says so."""
        return not self.score.false_alarm if self.score.case.state != "hung" else self.score.cause_right

    @property
    def laggards_right(self) -> bool:
        """Only a hang has somebody to name."""
        return self.score.case.state != "hung" or self.score.laggards_right


def run_one(program: Program, gap: float = 2.0) -> Live:
    """Start it, dump it, judge it, end it."""
    with running(program, python_with(program.needs), blind=True) as one:
        started = time.monotonic()
        collected = collect(here.find(), SampleRequest(pids=one.pids, gap_seconds=gap))
        if not collected.dumps and program.state != "done":
            # A verdict on nothing would be scored as if the rules were wrong.
            raise LibraryMissing("no stack was taken: is py-spy in this interpreter's environment?", mend="make venv")
        verdict = diagnose(collected.dump)
        seconds = time.monotonic() - started
        verdict.laggards = judge.laggards(verdict, collected.manifest.processes, one.names, program)
    case = Case(
        folder=program.path.with_suffix(""),
        accept=list(program.accept),
        laggards=list(program.laggards),
        tie=list(program.tie),
        state=program.state,
    )
    return Live(Score(case, verdict), seconds)


# Programs that could not be brought to their hang, each with the reason.
NOT_RUN: dict[str, str] = {}


def run_all(folder: Path, only: set[str]) -> list[Live]:
    """Every program of a folder, one after another."""
    done = []
    for program in programs(folder):
        if only and program.name not in only:
            continue
        try:
            live = run_one(program)
        except DrydockError as error:
            print(f"  {program.name}: not run: {error}", flush=True)
            NOT_RUN[program.name] = str(error).splitlines()[0]
            continue
        done.append(live)
        marks = f"{'✓' if live.right else '✗'}{'✓' if live.laggards_right else '✗'}"
        print(f"  {marks} {live.seconds:4.1f} s  {live.score}", flush=True)
    return done


def main(only: set[str]) -> int:
    """Run everything, print it, and write the page; returns the exit code."""
    zoo = run_all(ZOO, only)
    apart = {name: run_all(ZOO / name, only) for name in APART}
    strangers = [live for lives in apart.values() for live in lives]
    if only:
        return 0 if all(live.right and live.laggards_right for live in [*zoo, *strangers]) else 1
    lines = _page(zoo, apart)
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"written: {PAGE.relative_to(CLONE)}")
    return 0 if _goals_met(zoo, apart) else 1


def _goals_met(zoo: list[Live], apart: dict[str, list[Live]]) -> bool:
    hung = [live for live in zoo if live.score.case.state == "hung"]
    enough = _share([live.right for live in hung]) >= 0.95 and _share([live.laggards_right for live in hung]) >= 0.95
    enough = enough and all(_share([live.right for live in lives]) >= 0.8 for lives in apart.values() if lives)
    everything = [*zoo, *(live for lives in apart.values() for live in lives)]
    return enough and not any(live.score.false_alarm or live.score.certain_and_wrong for live in everything)


def _share(right: list[bool]) -> float:
    return sum(right) / len(right) if right else 0.0


def _row(name: str, listed: list[Score], right: int, laggards: int, seconds: str) -> str:
    hung = [score for score in listed if score.case.state == "hung"]
    alarms = sum(score.false_alarm for score in listed)
    wrong = sum(score.certain_and_wrong for score in listed)
    said = sum(score.verdict.hangs for score in hung)
    return (
        f"| {name} | {len(listed)} | {right}/{len(hung)} | {laggards}/{len(hung)} | {said}/{len(hung)} "
        f"| {alarms}/{len(listed) - len(hung)} | {wrong} | {seconds} |"
    )


def _live_row(name: str, listed: list[Live]) -> str:
    hung = [live for live in listed if live.score.case.state == "hung"]
    spent = sorted(live.seconds for live in listed)
    seconds = f"{spent[len(spent) // 2]:.1f} s, at most {spent[-1]:.1f} s" if spent else ""
    return _row(
        name, [live.score for live in listed],
        sum(live.right for live in hung), sum(live.laggards_right for live in hung), seconds,
    )  # fmt: skip


def _page(zoo: list[Live], apart: dict[str, list[Live]]) -> list[str]:
    kept = {name: [score for score in scores(name) if score.case.known] for name in RECORDED}
    lines = [
        "# How often the verdict is right",
        "",
        "Written by `make bench-hang`. Each program of [examples/hangs](../examples/hangs/README.md) was started,",
        "left to hang, sampled twice and ended; recorded hangs ([tests/hang_cases](../tests/hang_cases/README.md))",
        "were read from their files. The truth was committed before any verdict was seen.",
        "",
        "*Cause*: the first cause is right, or the verdict is undecided between it and one that stacks can't tell",
        "from it.",
        "*Laggards*: all whom a person would name and nobody else. *False alarms*: called hung where nothing hangs.",
        "*Called hung*: of what hangs. A loop without end can't be told from long work, and is called slow, undecided.",
        "",
        "| set | cases | cause | laggards | called hung | false alarms | certain and wrong | command to verdict |",
        "|---|---|---|---|---|---|---|---|",
        _live_row("programs, run live", zoo),
    ]
    lines += [_live_row(_APART[name], lives) for name, lives in apart.items() if lives]
    for name, listed in kept.items():
        if listed:
            hung = [score for score in listed if score.case.state == "hung"]
            right, named = sum(s.cause_right for s in hung), sum(s.laggards_right for s in hung)
            lines.append(_row(f"`{name}`", listed, right, named, ""))
    load = ", ".join(f"{value:.0f}" for value in os.getloadavg())
    lines += ["", f"Run on {os.cpu_count()} cores at a load of {load} (the last 1, 5 and 15 minutes, at its end)."]
    if NOT_RUN:
        lines += ["", "Not run, and in no figure above:", ""]
        lines += [f"- `{name}`: {reason}" for name, reason in NOT_RUN.items()]
    lines += ["", *_BLIND]
    lives = [*zoo, *(live for lives in apart.values() for live in lives)]
    lines += ["", "## What it still gets wrong", ""]
    wrong = [live for live in lives if not live.right or not live.laggards_right]
    lines += [f"- `{live.score}`" for live in wrong] or ["Nothing, this time."]
    lines += ["", "## What was said of what", "", "True cause, how often, what was said:", "", "```"]
    lines += [table(live.score for live in lives).rstrip(), "```"]
    return lines


if __name__ == "__main__":
    sys.exit(main(set(sys.argv[1:])))
