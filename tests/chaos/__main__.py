"""``make chaos SEED= STEPS=``: take seeded steps, print and count them; exit code 1 where one was not fine."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import sys
import tempfile
from pathlib import Path

from tests.chaos import page
from tests.chaos.driver import Chaos, Outcome, figures, may_mount
from tests.chaos.faults import FAULTS
from tests.chaos.planning import plan, wanted
from tests.support.harness import CLONE, own_project


def run(seed: int, first: int, last: int) -> tuple[list[Outcome], list[str]]:
    """Take the steps; returns how they went, and what was wrong at the end."""
    disks = may_mount()
    names = [name for name in FAULTS if disks or not name.startswith("full-")]
    if not disks:
        print("· no small disks without root: nothing is filled")
    outcomes: list[Outcome] = []
    chaos = Chaos(own_project("chaos"), Path(tempfile.mkdtemp(prefix="drydock-chaos-")), disks=disks)
    try:
        chaos.begin()
        print(
            "· undisturbed: " + ", ".join(f"{verb} {seconds:.1f} s" for verb, seconds in chaos.usual.items()),
            flush=True,
        )
        for step in plan(seed, names, first, last):
            outcome = chaos.take(step)
            outcomes.append(outcome)
            mark = "✗" if outcome.faults else "✓"
            where = "" if outcome.in_flight else " (too late)"
            print(f"{mark} {step.number:3} {step.verb}{' cold' * (step.verb == 'up' and step.cold)}: "
                  f"{outcome.did or step.fault}{where}; exit code {outcome.code} after {outcome.ended} s, "
                  f"back in {outcome.back} s", flush=True)  # fmt: skip
            for fault in outcome.faults:
                print(f"      {fault}", flush=True)
            if outcome.faults:
                print("      " + outcome.said.replace("\n", "\n      "), flush=True)
                print(f"      again: make chaos SEED={seed} STEPS={step.number}-{step.number}", flush=True)
    finally:
        wrong = chaos.end()
    return outcomes, wrong


def main() -> int:
    """Read the environment, run, keep the figures."""
    # A run that was started in the background of a script ignores Ctrl-C, and so would every verb.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    seed = int(os.environ.get("SEED") or secrets.randbelow(10**6))
    first, last = wanted(os.environ.get("STEPS", ""))
    print(f"· SEED={seed} STEPS={first}-{last} takes the same steps again", flush=True)
    outcomes, wrong = run(seed, first, last)
    folder = CLONE / "test-artefacts"
    folder.mkdir(exist_ok=True)
    kept = {
        "seed": seed,
        "first": first,
        "last": last,
        "figures": figures(outcomes),
        "wrong_at_the_end": wrong,
        "steps": [{**one.as_dict(), "of_seed": seed} for one in outcomes],
    }
    (folder / f"chaos-{seed}-{first}-{last}.json").write_text(json.dumps(kept, indent=2) + "\n")
    if len(outcomes) >= page.LONG_CHAOS:
        page.keep(chaos={"runs": [kept]})
    for fault in wrong:
        print(f"✗ at the end: {fault}")
    fine = not wrong and all(not outcome.faults for outcome in outcomes)
    print(f"{'✓' if fine else '✗'} {figures(outcomes)}")
    return 0 if fine else 1


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
