"""Sampling real processes: whatever state they are in, each is a result, and none is left otherwise than it was."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.processes.sampling import NodeAnswer, ProcessEntry, SampleRequest, dumper, take, turns
from harness.processes.sampling.take import Sampling
from harness.processes.stat import read_stat
from tests.support.hanging import Job, harness
from tests.support.harness import CLONE, HARNESS, wait_for

FakePySpy = Callable[[str], None]


@pytest.fixture
def py_spy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePySpy:
    """Puts a program in py-spy's place."""

    def put(text: str) -> None:
        program = tmp_path / "py-spy"
        program.write_text(text)
        program.chmod(0o755)
        monkeypatch.setattr(dumper, "find_py_spy", lambda: str(program))

    return put


def sample(job: Job, samples: int = 1, **more: Any) -> NodeAnswer:
    """Sample a job once."""
    fields: dict[str, Any] = {"pids": job.pids, "samples": samples, "gap_seconds": 0.0, **more}
    return take(SampleRequest(**fields))


def state(pid: int) -> str:
    """The kernel's letter for a process."""
    found = read_stat(pid)
    return "" if found is None else found.state


def functions(answer: NodeAnswer, entry: ProcessEntry, number: int = 0) -> list[str]:
    """Functions on all stacks of a process."""
    threads = json.loads(answer.dumps[entry.samples[number].file or ""])
    return [frame["name"] for thread in threads for frame in thread["frames"]]


def test_children_zombies_and_foreign_programs_are_found(job: Job) -> None:
    job.start("with_children").settle()
    answer = sample(job)
    by_command = {entry.command.split("/")[-1].split(" ")[0]: entry for entry in answer.processes}
    zombie = next(entry for entry in answer.processes if entry.state == "Z")
    assert zombie.exit_code == 0
    assert by_command["sleep"].error == "not a Python process"
    sampled = [entry for entry in answer.processes if entry.samples and entry.samples[0].file]
    assert len(sampled) == 2
    assert all("train_here" in functions(answer, entry) for entry in sampled if entry.pid != job.pids[0])


def test_a_process_that_is_gone_is_said_to_be(job: Job) -> None:
    job.start("plain")
    gone = subprocess.run(["true"], check=True)
    assert gone.returncode == 0
    answer = take(SampleRequest(pids=[job.pids[0], 2**22 - 7], samples=1))
    assert [(entry.missing, bool(entry.error)) for entry in answer.processes] == [(False, False), (True, True)]


def test_a_process_that_ends_between_the_samples(job: Job) -> None:
    class Ending(Sampling):
        def _round(self, entries: list[ProcessEntry], number: int) -> None:
            super()._round(entries, number)
            if number == 1:
                job.processes[0].kill()
                os.waitid(os.P_PID, job.pids[0], os.WEXITED | os.WNOWAIT)

    job.start("plain").settle()
    [entry] = Ending(SampleRequest(pids=job.pids, gap_seconds=0)).run().processes
    assert entry.state in ("X", "Z")
    assert entry.samples[0].file
    assert not entry.samples[1].file
    assert entry.samples[1].error


def test_a_process_that_a_debugger_holds_is_sampled_all_the_same(job: Job) -> None:
    job.start("plain").settle()
    libc = ctypes.CDLL(None, use_errno=True)
    pid = job.pids[0]

    def held() -> NodeAnswer:
        # Only the thread that attached may let go.
        assert libc.ptrace(16, pid, 0, 0) == 0
        os.waitpid(pid, 0x40000000)
        try:
            return sample(job)
        finally:
            libc.ptrace(17, pid, 0, 0)

    answer = held()
    [entry] = answer.processes
    assert entry.state == "t"
    assert entry.samples[0].way == "py-spy --nonblocking"
    assert "train_here" in functions(answer, entry)


def test_a_process_that_no_signal_reaches_is_not_waited_for(job: Job) -> None:
    """A parent that waits for its vfork-ed child's exec is in state D."""
    job.run("unreachable", "rank0", dict(os.environ))
    job.wait_ready()
    wait_for("state D", lambda: state(job.pids[0]) == "D")
    answer = sample(job, dump_seconds=5)
    entry = next(entry for entry in answer.processes if entry.pid == job.pids[0])
    assert entry.state == "D"
    assert entry.wchan or entry.syscall
    assert entry.samples[0].way == "py-spy --nonblocking" or entry.samples[0].error


def test_locals_are_taken_without_secrets(job: Job) -> None:
    job.start("plain").settle()
    answer = sample(job, locals=True)
    text = answer.dumps[answer.processes[0].samples[0].file or ""].decode()
    assert "[1, 2, 3]" in text
    assert "0123456789abcdef" not in text


def test_native_frames_are_taken_on_request(job: Job) -> None:
    job.start("plain").settle()
    answer = sample(job, native=True)
    assert any(".so" in name for name in answer.dumps[answer.processes[0].samples[0].file or ""].decode().split('"'))
    assert state(job.pids[0]) == "S"


@pytest.mark.parametrize(
    "python", sorted({*Path.home().glob(".pyenv/versions/3.1*/bin/python3"), Path(sys.executable)})
)
def test_every_python_that_is_here(python: Path, job: Job) -> None:
    version = subprocess.run(
        [str(python), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    if version not in ("3.10", "3.11", "3.12", "3.13", "3.14"):
        pytest.skip(f"Python {version} is none of those that are supported")
    job.python = str(python)
    job.start("agents").settle()
    before = turns.of_process(job.pids[0])
    answer = sample(job, tasks=version == "3.14")
    [entry] = answer.processes
    assert entry.python == version
    assert "run_agents" not in functions(answer, entry)  # a loop that sleeps shows no task
    assert state(job.pids[0]) == "S"
    if version not in ("3.10", "3.14"):
        assert turns.of_process(job.pids[0]) == before  # it was not given a single turn by all of it
    read = json.loads(answer.dumps[entry.tasks])
    waiting = {chain["task"]: chain["stack"][-1]["name"] for chain in read["tasks"]}
    agents = [name for task, name in waiting.items() if task.startswith("agent-")]
    assert sorted(name.rpartition(".")[2] for name in agents) == ["acquire"] * 4 + ["wait"] * 2
    if version != "3.14":
        assert {"run_agents"} == {name for task, name in waiting.items() if not task.startswith("agent-")}
        assert read["loops"] == [{"timers": 0, "next_timer": None, "watched": 0}]


def test_a_process_that_sleeps_is_neither_stopped_nor_read_twice(job: Job) -> None:
    """Its threads are not given a single turn on a core by all of it."""
    job.start("plain").settle()
    before = turns.of_process(job.pids[0])
    answer = sample(job, samples=2)
    [entry] = answer.processes
    assert [one.way for one in entry.samples] == ["py-spy", "unmoved"]
    assert entry.samples[0].file == entry.samples[1].file
    assert "train_here" in functions(answer, entry, 1)
    assert turns.of_process(job.pids[0]) == before


@pytest.mark.parametrize("name", ["spins", "wakes"])
def test_a_process_that_runs_is_read_each_time(name: str, job: Job) -> None:
    job.start(name)
    answer = sample(job, samples=2, gap_seconds=1)
    [entry] = answer.processes
    # Who computes is looked at more often than was asked.
    assert len(entry.samples) >= 2
    assert {one.way for one in entry.samples} == {"py-spy"}
    assert len({one.file for one in entry.samples}) == len(entry.samples)


# --- py-spy itself is missing, denied, hangs, crashes ---


def test_without_py_spy_the_kernel_is_asked(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dumper, "find_py_spy", lambda: None)
    answer = sample(job.start("plain").settle())
    [entry] = answer.processes
    assert entry.error == "py-spy is not installed here"
    assert entry.wchan or entry.syscall
    assert any("pip install py-spy" in note for note in answer.notes)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("#!/bin/sh\necho 'Error: Permission denied (os error 13)' >&2\nexit 1\n", "denied"),
        ("#!/bin/sh\nkill -SEGV $$\n", "signal 11"),
        ("#!/bin/sh\nexec sleep 1000\n", "longer than"),
        ("#!/bin/sh\necho '[{\"fra'\n", "no stacks"),
        ("#!/bin/sh\necho 'Error: something new' >&2; exit 3\n", "something new"),
        ("#!/no/such/interpreter\n", "can't be started"),
    ],
)
def test_a_py_spy_that_fails_is_a_result(text: str, reason: str, job: Job, py_spy: FakePySpy) -> None:
    py_spy(text)
    answer = sample(job.start("plain").settle(), dump_seconds=1 if "sleep" in text else 60)
    [entry] = answer.processes
    assert reason in entry.error
    assert state(job.pids[0]) == "S"


def test_where_reading_is_denied_the_process_is_asked_itself(job: Job, py_spy: FakePySpy) -> None:
    py_spy("#!/bin/sh\necho 'Error: Permission denied (os error 13)' >&2\nexit 1\n")
    job.start("hooked", DRYDOCK_HOOKS="faulthandler", PYTHONPATH=str(CLONE)).settle()
    answer = sample(job, samples=2)
    [entry] = answer.processes
    assert [one.way for one in entry.samples] == ["faulthandler", "faulthandler"]
    assert all(b"in train_here" in answer.dumps[one.file or ""] for one in entry.samples)
    assert state(job.pids[0]) == "S"


HOLDS = f"""#!{sys.executable}
import ctypes, os, signal, sys, time
pid = int(sys.argv[sys.argv.index("--pid") + 1])
libc = ctypes.CDLL(None)
if "--nonblocking" in sys.argv:
    sys.exit(1)
os.kill(pid, signal.SIGSTOP)
open(__file__ + ".held", "w").close()
time.sleep(1000)
"""


def test_what_a_hanging_dumper_has_stopped_goes_on(job: Job, py_spy: FakePySpy) -> None:
    py_spy(HOLDS)
    answer = sample(job.start("plain").settle(), dump_seconds=1)
    assert "longer than" in answer.processes[0].error
    wait_for("it to go on", lambda: state(job.pids[0]) == "S")


def test_a_dump_that_is_broken_off_leaves_nothing_stopped(job: Job, py_spy: FakePySpy, tmp_path: Path) -> None:
    py_spy(HOLDS)
    job.start("plain").settle()
    sampling = Sampling(SampleRequest(pids=job.pids, dump_seconds=60))
    thread = threading.Thread(target=sampling.run)
    thread.start()
    wait_for("the dumper to hold it", lambda: (tmp_path / "py-spy.held").exists())
    sampling.stop()
    thread.join(60)
    assert not thread.is_alive()
    wait_for("it to go on", lambda: state(job.pids[0]) == "S")


def test_a_node_answers_in_time_also_when_dumpers_hang(job: Job, py_spy: FakePySpy) -> None:
    py_spy("#!/bin/sh\nexec sleep 1000\n")
    started = time.monotonic()
    answer = sample(job.start("plain").settle(), samples=2, timeout_seconds=2, dump_seconds=60)
    assert time.monotonic() - started < 40
    assert any("broke off" in note for note in answer.notes)


# --- the commands ---


def test_sample_writes_one_answer_and_nothing_else(job: Job, tmp_path: Path) -> None:
    from harness.processes.sampling.model import unpack

    job.start("plain").settle()
    request = json.dumps({"pids": job.pids, "samples": 1})
    done = subprocess.run([str(HARNESS), "sample"], input=request.encode(), capture_output=True, check=True)
    assert [entry.pid for entry in unpack(done.stdout).processes] == job.pids
    wrong = subprocess.run([str(HARNESS), "sample", "--request", "{"], capture_output=True, check=False)
    assert (wrong.returncode, wrong.stdout) == (2, b"")


def test_ctrl_c_leaves_no_folder_and_no_stopped_process(job: Job, runs: Path) -> None:
    job.start("plain").settle()
    command = subprocess.Popen(
        [str(HARNESS), "hang-dump", "--pids", str(job.pids[0]), "--gap", "60"],
        env={**os.environ, "RUNS": str(runs)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for("the command to sample", lambda: any("way " in _thread(task) for task in _tasks(command.pid)))
    command.send_signal(signal.SIGINT)
    _, complaint = command.communicate(timeout=60)
    assert command.returncode == 130
    assert "Ctrl-C" in complaint
    assert not runs.exists() or list(runs.iterdir()) == []
    assert state(job.pids[0]) == "S"


def _tasks(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/task").glob("*/comm"))


def _thread(comm: Path) -> str:
    # Python names threads for the kernel since 3.14 only; a second thread is enough to know.
    return "way " if comm.parent.name != comm.parents[2].name else ""


def test_wrong_calls_say_what_is_meant(job: Job, runs: Path) -> None:
    nobody = harness(runs, "hang-dump", "--match", "no-such-program-anywhere")
    assert nobody.code == 2
    assert "no process for MATCH=no-such-program-anywhere" in nobody.stderr
    gone = harness(runs, "hang-dump", "--json", "--pids", str(2**22 - 7))
    assert gone.code == 2
    assert gone.json()["error"] == "NothingToSample"
    for wrong in (("--pids", "seven"), ("--match", "(")):
        ended = harness(runs, "hang-dump", *wrong)
        assert ended.code == 2, ended
        assert "can't be used" in ended.stderr
    assert not runs.exists()


def test_a_verdict_is_given_also_where_it_cannot_be_kept(job: Job, tmp_path: Path) -> None:
    job.start("plain").settle()
    blocked = tmp_path / "runs"
    blocked.write_text("a file where the folder should be")
    ended = harness(blocked, "hang-dump", "--pids", str(job.pids[0]))
    assert ended.code == 3
    assert "train_here" in ended.stdout
    assert "results can't be written" in ended.stderr
