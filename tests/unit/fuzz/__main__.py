"""``make fuzz SECONDS=``: break examples of every parser for so long; exit code 1 where one didn't keep its promise."""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.chaos import page
from tests.support.harness import CLONE
from tests.unit.fuzz.all import PARSERS
from tests.unit.fuzz.parser import Parser, held, inputs

AT_ONCE = 25


def one(parser: Parser, seed: int, folder: Path) -> tuple[int, bytes | None]:
    """One handful of inputs; how many were read, and the one that was too much."""
    count = 0
    for count, data in enumerate(inputs(parser, seed, AT_ONCE), start=1):
        try:
            held(parser, data, folder)
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001  # whatever it is, it is a fault
            traceback.print_exc()
            return count, data
    return count, None


def main() -> int:
    """Go round the parsers until the time is over."""
    seconds = float(os.environ.get("SECONDS") or 60)
    seed = int(os.environ.get("SEED") or secrets.randbelow(10**6))
    print(f"· SEED={seed} begins the same way", flush=True)
    counts = dict.fromkeys(PARSERS, 0)
    faults: dict[str, str] = {}
    began, ends = time.process_time(), time.monotonic() + seconds
    kept = CLONE / "test-artefacts"
    with tempfile.TemporaryDirectory() as work:
        for turn in range(10**9):
            for number, (name, parser) in enumerate(PARSERS.items()):
                if time.monotonic() > ends:
                    break
                if name in faults:
                    continue
                folder = Path(work, str(number))
                folder.mkdir(exist_ok=True)
                done, culprit = one(parser, seed + turn * 1000 + number, folder)
                counts[name] += done
                if culprit is not None:
                    kept.mkdir(exist_ok=True)
                    file = kept / f"fuzz-{number}.input"
                    file.write_bytes(culprit)
                    faults[name] = str(file.relative_to(CLONE))
                    print(f"✗ {name}: {file.relative_to(CLONE)}", flush=True)
            if time.monotonic() > ends:
                break
    total = sum(counts.values())
    print(f"{'✗' if faults else '✓'} {total} inputs, {len(PARSERS)} parsers, {len(faults)} with a fault")
    if seconds >= page.LONG_FUZZ:
        page.keep(
            fuzz={"seed": seed, "inputs": counts, "cpu_seconds": round(time.process_time() - began), "faults": faults}
        )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
