"""Programs of examples/hangs, run for real: the quick ones in every run, all of them in the full one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from harness.hang.zoo.program import APART, Program, programs, read
from harness.hang.zoo.run import ProgramFailed
from tests.bench.hang_accuracy import ZOO, run_one
from tests.support.hanging import harness
from tests.support.harness import CLONE, HARNESS, wait_for
from tests.support.torch_python import torch_python

EVERY = [program for folder in (ZOO, *(ZOO / name for name in APART)) for program in programs(folder)]
# In CI's time: one without torch of each kind, and three jobs of ranks.
QUICK = {"async-event-never-set", "server-blocked-loop", "ok-idle-server", "cleanup", "stopped-rank"}


@pytest.fixture(scope="module", autouse=True)
def torch(request: pytest.FixtureRequest) -> None:
    """Skips where torch can't be had."""
    torch_python()


@pytest.mark.parametrize("program", [one for one in EVERY if one.name in QUICK], ids=lambda one: one.name)
def test_the_verdict_is_right(program: Program) -> None:
    live = run_one(program, gap=1.0)
    assert live.right, str(live.score)
    assert live.laggards_right, str(live.score)


@pytest.mark.slow
@pytest.mark.parametrize("program", [one for one in EVERY if one.name not in QUICK], ids=lambda one: one.name)
def test_no_verdict_is_certain_and_wrong(program: Program) -> None:
    """How often they are right is measured by `make bench-hang`; this is what may never happen."""
    live = run_one(program)
    assert not live.score.certain_and_wrong, str(live.score)


def test_a_demo_shows_the_verdict_and_what_is_true(tmp_path: object) -> None:
    ended = harness(tmp_path, "hang-demo", "--case", "server-blocked-loop").ok()  # type: ignore[arg-type]
    assert "server-blocked" in ended.stdout
    assert "What is true: A handler of an asyncio server" in ended.stdout
    unknown = harness(tmp_path, "hang-demo", "--case", "no-such-program")  # type: ignore[arg-type]
    assert unknown.code == 2


def test_a_program_that_ends_instead_of_hanging_is_not_scored(tmp_path: Path) -> None:
    ends = tmp_path / "ends.py"
    ends.write_text('"""It raises.\n\n---\nstate: hung\naccept: [dead-peer]\n"""\nprint("ready", flush=True)\n1 / 0\n')
    with pytest.raises(ProgramFailed, match=r"(?s)ended instead of hanging.*ZeroDivisionError"):
        run_one(read(ends))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_however_a_demo_ends_its_programs_end_with_it(tmp_path: Path, number: signal.Signals) -> None:
    command = subprocess.Popen(
        [str(HARNESS), "hang-demo", "--case", "ok-idle-server", "--gap", "600"],
        cwd=CLONE, env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wait_for("its program", lambda: of_folder(tmp_path))
    command.send_signal(number)
    command.wait(60)
    wait_for("nothing of it to be left", lambda: not of_folder(tmp_path))


def of_folder(folder: Path) -> list[int]:
    """Processes whose program was given a place below a folder."""
    mark = f"HANG_FOLDER={folder}/".encode()
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError):
            if mark in Path(f"/proc/{process.pid}/environ").read_bytes():
                found.append(process.pid)
    return found
