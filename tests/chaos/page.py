"""``docs/reliability.md``: what long runs of `make chaos` and `make fuzz` have counted, and what they have led to.

A run of `make chaos` that was taken in portions is put together from their files::

    python -m tests.chaos.page test-artefacts/chaos-7-*.json
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.chaos.faults import FAULTS
from tests.support.harness import CLONE

FIGURES = CLONE / "tests/chaos/figures.json"
PAGE = CLONE / "docs/reliability.md"
# Shorter runs are for looking, and write nothing.
LONG_CHAOS, LONG_FUZZ = 30, 300

Steps = list[dict[str, Any]]


def keep(**parts: Any) -> None:
    """Replace parts of the figures (``chaos``, ``fuzz``), and write the page anew."""
    figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    figures |= parts
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(text(figures), encoding="utf-8")
    print(f"written: {PAGE.relative_to(CLONE)}")


def text(figures: dict[str, Any]) -> str:
    """The page."""
    lines = [*_HEAD, *_chaos(figures.get("chaos", {})), *_fuzz(figures.get("fuzz", {})), *_TAIL]
    return "\n".join(lines) + "\n"


def _chaos(runs: dict[str, Any]) -> list[str]:
    steps: Steps = [step for run in runs.get("runs", ()) for step in run["steps"]]
    if not steps:
        return ["Not run yet.", ""]
    back = [step["back"] for step in steps if not step["faults"]]
    most = max(step["load"] for step in steps)
    seeds = ", ".join(map(_steps, runs["runs"]))
    lines = [
        f"{len(steps)} steps ({seeds}), {sum(map(_in_flight, steps))} of them with the fault while the verb was",
        f"at work; {sum(not step['faults'] for step in steps)} ended as they should. The `up` after it took",
        f"{statistics.median(back):.0f} s in the median and {max(back):.0f} s at most (load of the machine up to"
        f" {most:.0f}).",
        "",
        "| fault | steps | in flight | the verb ended well | it said what is wrong | it was ended | as it should be |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, (what, _) in FAULTS.items():
        mine = [step for step in steps if step["fault"] == name]
        if not mine:
            lines.append(f"| {what} | 0 |  |  |  |  |  |")
            continue
        codes = [step["code"] for step in mine]
        lines.append(
            f"| {what} | {len(mine)} | {sum(map(_in_flight, mine))} | {codes.count(0)} "
            f"| {sum(code is not None and code > 0 for code in codes)} "
            f"| {sum(code is None or code < 0 for code in codes)} | {sum(not step['faults'] for step in mine)} |"
        )
    lines += ["", "| verb | steps | in flight | as it should be |", "|---|---|---|---|"]
    for verb in ("up", "check", "hang-dump", "down"):
        mine = [step for step in steps if step["verb"] == verb]
        fine = sum(not step["faults"] for step in mine)
        lines.append(f"| `make {verb}` | {len(mine)} | {sum(map(_in_flight, mine))} | {fine} |")
    wrong = [step for step in steps if step["faults"]]
    lines += ["", "### What was not as it should be", ""]
    lines += [_wrong(step) for step in wrong] or ["Nothing, this time."]
    return [*lines, ""]


def _wrong(step: dict[str, Any]) -> str:
    again = f"`SEED={step['of_seed']} STEPS={step['number']}-{step['number']}`"
    load = f", load {step['load']:.0f}" if step["load"] else ""
    return f"- {again} ({step['verb']}, {step['fault']}{load}): " + "; ".join(map(_short, step["faults"]))


def _steps(run: dict[str, Any]) -> str:
    # A step whose fault never reached the verb is none.
    without = f" without {', '.join(map(str, run['left_out']))}" if run.get("left_out") else ""
    return f"SEED={run['seed']} STEPS={run['first']}-{run['last']}{without}"


def _in_flight(step: dict[str, Any]) -> bool:
    return bool(step["in_flight"] and step["did"])


def _short(fault: str) -> str:
    return fault.splitlines()[0][:120].replace("|", "/")


def _fuzz(found: dict[str, Any]) -> list[str]:
    lines = ["## Parsers", "", *_PARSERS, ""]
    if not found:
        return [*lines, "Not run yet.", ""]
    counts: dict[str, int] = found["inputs"]
    lines += [
        f"The last long run: {sum(counts.values())} inputs for {len(counts)} parsers",
        f"in {found['cpu_seconds']} s of CPU, SEED={found['seed']};",
        f"{len(found['faults'])} of the parsers did not keep their promise.",
        "",
        "| parser | inputs | kept its promise |",
        "|---|---|---|",
    ]
    lines += [f"| {name} | {count} | {'no' if name in found['faults'] else 'yes'} |" for name, count in counts.items()]
    return [*lines, ""]


_HEAD = """# What happens when something breaks in the middle

Written by `make chaos` and `make fuzz` (in a clone; `CONTRIBUTING.md` says how they are run).

## Faults in mid-flight

A stack of its own runs beside things that belong to somebody else: a container on a network of its own with a volume, a
process, and files in the folders that Drydock writes to. A step starts `up`, `check`, `hang-dump` or `down`, and breaks
one thing while that is at work. Verb, fault and moment follow from a seed, so that any step can be had again alone.
Docker's engine is everybody's, so it isn't the engine that goes away but a socket in front of it; a test beside these
steps kills an engine of its own (SIGKILL) in the middle of each verb. A step is as it should be when all of this holds:

- the verb ends by itself, in its own words and with its own exit code, and with `--json` in one document;
- the next `make up` brings everything back, and `make status` says so;
- no result is half-written: every file of JSON, XML and HTML is whole, and none is left over from writing;
- after `make down` there is no container, network or process of ours;
- what belongs to somebody else is as it was.

""".splitlines()

_PARSERS = """Whatever is read may be broken: cut off, of another version, edited by hand, or made to harm. Right ones
are broken in structure, lines and bytes. Each parser reads what is left, or answers with an
error of Drydock's own; it takes no more than seconds and some megabytes for a few kilobytes, and a pickle runs nothing.
What Drydock writes itself it reads back as it was.""".splitlines()

_TAIL: list[str] = """## What was found and mended

By breaking inputs:

- deeply nested JSON or YAML ended with an error of Python's instead of a sentence: a model's `config.json`, an index of
  shards, a GGUF file, a fingerprint, an earlier check's environment, lists of runs, data to compare, a debugger's
  messages, tool calls and streamed answers, Docker's `config.json`;
- a number with more than 4300 digits did the same in data sets, in `docker/images.lock` and in the driver's answers;
- JSON of another form than expected: `output_ids` that are no list, an earlier comparison's samples, what the last `up`
  and what builds wrote down, numbers of paused workers, Docker contexts, Ray's summary of nodes, routes, address pools;
- an edited `docker/images.yaml` ended in a traceback, and says now what is wrong with it;
- an archive of three bytes, a length beyond what a file can have, a header or a shard that is no name;
- the gateway's settings with endless numbers or brackets, which the first runs of five minutes met;
- endless numbers for processes, ranks and lines in dumps, and figures of an earlier check that no number can hold;
- a default in a training configuration that is no YAML, a conversation whose content is neither text nor parts, a name
  with a zero byte among a saved stack's checksums;
- a record beside weights left its half-written self behind on a full disk.

By faults in mid-flight:

- `make down` gave up where a busy engine had killed a container and not heard of its end in time; it tries again now.
- `make up` waited as long as it ever waits for a container that was taken off its network; it says so at once now.

By twelve programs that compute without end, on two cores:

- `make hang-dump` ended with a traceback, or said that somebody hadn't answered who had.

By killing an engine of a test's own in the middle of a verb (`tests/scenarios/chaos/test_engine_killed.py`):

- `make check` ended with 255 and without a word, or was begun again on this machine where it need not run in `dev`;
- `make up` and `make down` failed on a helper's container that such an engine lists without a name.
""".splitlines()


def together(files: Sequence[Path]) -> list[dict[str, Any]]:
    """Runs out of portions: a seed's steps that follow one another are one; of one taken twice the later counts."""
    taken: dict[tuple[int, int], dict[str, Any]] = {}
    for file in sorted(files, key=lambda file: file.stat().st_mtime_ns):
        portion = json.loads(file.read_text())
        taken |= {(portion["seed"], step["number"]): step for step in portion["steps"]}
    runs: list[dict[str, Any]] = []
    for (seed, number), step in sorted(taken.items()):
        if not runs or (runs[-1]["seed"], runs[-1]["last"]) != (seed, number - 1):
            runs.append({"seed": seed, "first": number, "steps": []})
        runs[-1]["last"] = number
        runs[-1]["steps"].append(step)
    return runs


if __name__ == "__main__":
    portions = [Path(name) for name in sys.argv[1:]]
    keep(**({"chaos": {"runs": together(portions)}} if portions else {}))
