"""What a process offers from inside when DEBUG= asked for it: no disk, no ptrace, and never an error of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.hooks import RECORDER, STACKS, STACKS_SIGNAL
from tests.support.harness import CLONE, wait_for

INSTALL = "import harness.hooks; harness.hooks.install(); harness.hooks.install()\n"
SLEEP = "import time; print('ready', flush=True); time.sleep(1000)"
TRAINING = f"import torch.distributed.distributed_c10d; {SLEEP}"
# As much of PyTorch as the recorder's hook touches.
TORCH = {
    "torch/__init__.py": "",
    "torch/_C/__init__.py": "",
    "torch/_C/_distributed_c10d.py": 'def _dump_fr_trace_json():\n    return \'{"entries": [{"op_id": 1}]}\'\n',
    "torch/distributed/__init__.py": "import torch._C._distributed_c10d\n",
    "torch/distributed/distributed_c10d.py": "def is_initialized(): return True\ndef get_rank(): return 3\n"
    "def init_process_group(backend=None, timeout=None): return timeout\n"
    "def new_group(ranks=None, timeout=None): return timeout\n",
}

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a program with hooks; returns it once it has printed "ready"."""
    for name, text in TORCH.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    started: list[subprocess.Popen[str]] = []

    def run(hooks: str, program: str, **more: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", INSTALL + program],
            env={**os.environ, "PYTHONPATH": f"{CLONE}:{tmp_path}", "DRYDOCK_HOOKS": hooks, **more},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()


def files(pid: int, name: str) -> list[Path]:
    """Open files of a hook in a process."""
    folder = Path(f"/proc/{pid}/fd")
    return [path for path in folder.iterdir() if os.path.lexists(path) and f"memfd:{name}" in os.readlink(path)]


def stacks_of(pid: int) -> str:
    """What comes when the signal is sent."""
    os.kill(pid, STACKS_SIGNAL)
    [file] = files(pid, STACKS)
    wait_for("the stacks", lambda: "most recent call first" in file.read_text())
    return file.read_text()


def test_stacks_come_from_a_process_that_blocks_in_c(start: Start) -> None:
    program = """
import threading
def stuck():
    lock = threading.Lock()
    lock.acquire()
    print("ready", flush=True)
    lock.acquire()
stuck()
"""
    process = start("faulthandler", program)
    assert "in stuck" in stacks_of(process.pid)
    assert process.poll() is None


def test_a_forked_child_has_its_own(start: Start) -> None:
    program = """
import os, time
def child():
    open("child", "w").write(str(os.getpid()))
    print("ready", flush=True)  # the child's line, for it gets its own file only some time after the fork
    time.sleep(1000)
if os.fork() == 0: child()
time.sleep(1000)
"""
    process = start("faulthandler", program)
    pid = int(Path(f"/proc/{process.pid}/cwd/child").read_text())
    try:
        assert "in child" in stacks_of(pid)
        assert [file.read_text() for file in files(process.pid, STACKS)] == [""]
    finally:
        os.kill(pid, 9)


def test_the_recorder_answers_on_request_and_only_then(start: Start) -> None:
    process = start("recorder", TRAINING)
    [file] = files(process.pid, RECORDER)
    head = file.read_text()
    assert head.count("\n") == 1
    with open(f"/proc/{process.pid}/fd/{json.loads(head)['request']}", "wb") as request:
        request.write(b"?")
    wait_for("an answer", lambda: file.read_text().count("\n") == 2)
    assert json.loads(file.read_text().splitlines()[1]) == {"rank": 3, "gloo": {"entries": [{"op_id": 1}]}}


def test_a_process_without_torch_has_no_recorder(start: Start) -> None:
    process = start("recorder", SLEEP)
    assert files(process.pid, RECORDER) == []


def test_a_torch_that_is_too_old_says_so(start: Start, tmp_path: Path) -> None:
    module = tmp_path / "torch/_C/_distributed_c10d.py"
    module.write_text("def _dump_fr_trace_json(): raise RuntimeError('no recorder')\n")
    process = start("recorder", TRAINING)
    [file] = files(process.pid, RECORDER)
    with open(f"/proc/{process.pid}/fd/{json.loads(file.read_text())['request']}", "wb") as request:
        request.write(b"?")
    wait_for("an answer", lambda: file.read_text().count("\n") == 2)
    assert "RuntimeError: no recorder" in file.read_text()


@pytest.mark.parametrize("hooks", ["faulthandler,recorder", "nonsense", ""])
def test_a_program_ends_as_it_would_without(hooks: str, tmp_path: Path) -> None:
    program = INSTALL + "import os, sys\nos.closerange(3, 100)\nprint('done')\nsys.exit(7)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(CLONE), "DRYDOCK_HOOKS": hooks, "TORCH_FR_DUMP_TEMP_FILE": "/proc/no/x_"},
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (7, "done\n", "")


def test_ranks_wait_a_day_for_one_that_is_paused(start: Start) -> None:
    program = """
import datetime, time, torch.distributed.distributed_c10d as d
print("ready", flush=True)
hour, week = datetime.timedelta(hours=1), datetime.timedelta(days=7)
print(*(t.days for t in (d.init_process_group("gloo", hour), d.new_group(), d.new_group(timeout=week))), flush=True)
"""
    process = start("patience,recorder", program)
    assert process.stdout is not None
    assert process.stdout.readline() == "1 1 7\n"
