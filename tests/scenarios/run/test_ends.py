"""How a command ends: by itself, by Ctrl-C, with processes left behind, or without its supervisor."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import NoSuchRun
from harness.processes.running import read_run
from harness.processes.tree import is_running
from tests.support.harness import CLONE, wait_for
from tests.support.supervised import PYTHON, Gate, Start, gone

SAVES = """
import signal, sys
def save(number, frame):
    print("saved", flush=True)
    sys.exit(3)
signal.signal(signal.SIGINT, save)
print("ready", flush=True)
signal.pause()
"""
STUBBORN = """
import signal
signal.signal(signal.SIGINT, lambda number, frame: print("not now", flush=True))
signal.signal(signal.SIGTERM, lambda number, frame: print("not now", flush=True))
print("ready", flush=True)
while True:
    signal.pause()
"""


def python(program: str) -> str:
    """A shell command that runs a program which holds no single quotes."""
    return f"{PYTHON} -c '{program}'"


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_the_exit_code_is_the_commands(supervised: Start, code: int) -> None:
    run = supervised(f"exit {code}")
    assert run.end()[0] == code
    record = run.result()
    assert (record.exit_code, record.signal, record.status) == (code, None, code)


def test_a_command_killed_by_a_signal_ends_as_in_a_shell(supervised: Start) -> None:
    run = supervised("kill -SEGV $$")
    code, _, err = run.end()
    assert code == 128 + signal.SIGSEGV
    assert (run.result().exit_code, run.result().signal) == (None, "SIGSEGV")
    assert "✗ ended by SIGSEGV" in err


def test_a_command_that_does_not_exist(supervised: Start) -> None:
    run = supervised("no-such-command --flag")
    code, _, err = run.end()
    assert code == 127
    assert "127 is what the shell answers when it doesn't find a command." in err
    assert [finding.code for finding in run.result().findings] == ["not-found"]


@pytest.mark.parametrize("command", ["", "   "])
def test_no_command_at_all_is_wrong_usage_and_leaves_no_folder(supervised: Start, command: str) -> None:
    run = supervised(command, environment={"CMD": ""})
    code, _, err = run.end()
    assert code == 2
    assert "There is no command to run." in err
    assert not [*run.runs.glob("*")]


@pytest.mark.parametrize("where", ["--foreground", "--background"])
def test_a_command_too_long_for_linux_says_what_to_do(tmp_path: Path, where: str) -> None:
    # A variable or an argument can't be that long either, so it comes by the file of settings.
    (tmp_path / "drydock.env").write_text(f"CMD=: {'x' * 200_000}\n")
    program = "import sys; from harness.cli.main import run; sys.exit(run(['supervise', sys.argv[1]]))"
    done = subprocess.run(
        [sys.executable, "-c", program, where],
        env={**os.environ, "DRYDOCK_HOME": str(tmp_path), "RUNS": str(tmp_path / "runs"), "PYTHONPATH": str(CLONE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Argument list too long" in done.stderr
    assert "put a long command into a script" in done.stderr


def test_one_ctrl_c_is_passed_on_and_the_command_may_save(supervised: Start) -> None:
    run = supervised(python(SAVES))
    assert run.line() == "ready"
    run.send(signal.SIGINT)
    code, out, _ = run.end()
    assert (code, out) == (3, b"saved\n")
    assert run.result().signals_passed_on == ["SIGINT"]
    assert not run.result().killed_by_user


def test_the_whole_group_hears_ctrl_c_as_on_a_terminal(supervised: Start) -> None:
    run = supervised(f"trap 'echo shell too' INT; {python(SAVES)} & wait $!; wait $!; echo child: $?; exit 0")
    assert run.line() == "ready"
    run.send(signal.SIGINT)
    code, out, _ = run.end()
    assert code == 0
    # Both write to one pipe at the same time, so what they say may be mixed.
    assert all(word in out for word in (b"saved", b"shell too", b"child: 3"))


def test_the_second_ctrl_c_kills_all_of_them(supervised: Start) -> None:
    run = supervised(f"setsid sleep 1000 & echo $!; exec {python(STUBBORN)}")
    sleeper = int(run.line())
    assert run.line() == "ready"
    run.known("sleep")
    run.send(signal.SIGINT)
    assert run.line() == "not now"
    run.send(signal.SIGINT)
    code, _, _ = run.end()
    assert code == 128 + signal.SIGKILL
    record = run.result()
    assert record.killed_by_user
    assert record.findings == []
    assert all(gone(process) for process in record.processes)
    assert sleeper in [process.pid for process in record.processes]


def test_sigterm_is_passed_on(supervised: Start) -> None:
    run = supervised("trap 'echo got it; exit 9' TERM; echo ready; while :; do sleep 0.05; done")
    assert run.line() == "ready"
    run.send(signal.SIGTERM)
    code, out, _ = run.end()
    assert (code, out) == (9, b"got it\n")


def test_a_process_left_behind_is_ended_and_reported(supervised: Start) -> None:
    run = supervised("setsid sleep 1000 & exit 0", "--grace", "0")
    code, _, err = run.end()
    assert code == 0
    (sleeper,) = [one for one in run.result().processes if not one.main]
    assert (sleeper.left_behind, sleeper.ended_by_us, sleeper.signal) == (True, "SIGTERM", "SIGTERM")
    assert gone(sleeper)
    assert "The command ended, but 1 process of it went on" in err


def test_one_that_is_stopped_is_ended_all_the_same(supervised: Start) -> None:
    run = supervised("setsid sleep 1000 & kill -STOP $!; exit 0", "--grace", "0")
    assert run.end()[0] == 0
    (sleeper,) = [one for one in run.result().processes if not one.main]
    assert (sleeper.left_behind, sleeper.signal) == (True, "SIGTERM")


def test_one_that_ends_within_the_grace_time_is_not_left_behind(supervised: Start, gate: Gate) -> None:
    run = supervised(f"setsid sh -c 'read x < {gate}; exit 4' & exit 0", "--grace", "100")
    (child,) = run.known("sh")

    def only_the_child_is_left() -> bool:
        state = run.state()
        return state is not None and [one.pid for one in state.record.processes] == [child.pid]

    wait_for("the command's end", only_the_child_is_left)
    gate.open()
    assert run.end()[0] == 0
    record = run.result()
    (process,) = [one for one in record.processes if one.pid == child.pid]
    assert (process.exit_code, process.left_behind, process.ended_by_us) == (4, False, "")
    assert process.ended is not None
    assert record.ended is not None
    assert process.ended > record.ended


def test_ctrl_c_during_the_grace_time_shortens_it(supervised: Start) -> None:
    run = supervised("setsid sleep 1000 & echo $!; exit 0", "--grace", "1000")
    sleeper = int(run.line())

    def only_the_child_is_left() -> bool:
        state = run.state()
        return state is not None and [one.pid for one in state.record.processes] == [sleeper]

    wait_for("the command's end", only_the_child_is_left)
    run.send(signal.SIGINT)
    assert run.end()[0] == 0
    (process,) = [one for one in run.result().processes if one.pid == sleeper]
    assert process.left_behind


def test_one_that_ignores_sigterm_is_killed(tmp_path: Path, supervised: Start) -> None:
    program = f"""
import sys
from pathlib import Path
from harness.processes.supervise import Plan, supervise
from harness.runs import RunFolder
folder = RunFolder.create(Path({str(tmp_path / "runs")!r}), "run")
record = supervise(Plan("trap \\"\\" TERM; setsid sleep 1000 & exit 0", folder, grace=0, term=0.1))
print(record.model_dump_json())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(CLONE)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    (sleeper,) = [one for one in json.loads(done.stdout)["processes"] if not one["main"]]
    assert (sleeper["left_behind"], sleeper["ended_by_us"], sleeper["signal"]) == (True, "SIGKILL", "SIGKILL")


def test_in_the_background_it_goes_on_without_its_caller(supervised: Start, gate: Gate) -> None:
    run = supervised(f"echo begun; read x < {gate}; echo done; exit 6", "--background")
    code, _, err = run.end()
    assert code == 0
    assert "✓ runs in the background as process" in err
    state = run.state()
    assert state is not None
    assert state.state == "running"
    assert state.record.processes[0].main
    gate.open()
    wait_for("the result", lambda: (run.folder / "result.json").exists())
    record = run.result()
    assert (record.exit_code, record.background) == (6, True)
    assert (run.folder / "stdout.log").read_text() == "begun\ndone\n"
    assert not (run.folder / "running.json").exists()
    # It goes last, after the result is there.
    wait_for("the supervisor's own log to be gone", lambda: not (run.folder / "supervisor.log").exists())


def test_what_ends_at_once_in_the_background_is_told(supervised: Start) -> None:
    run = supervised("echo begun; no-such-program --flag", "--background")
    code, _, err = run.end()
    assert code == 127
    assert "✗ ended with 127" in err
    assert "no-such-program" in err.partition("ended with 127")[2]


def test_the_background_reads_no_input(supervised: Start) -> None:
    run = supervised("cat; echo end of input", "--background", "--json", stdin=subprocess.PIPE)
    assert json.loads(run.end()[1])["state"] == "running"
    wait_for("the result", lambda: (run.folder / "result.json").exists())
    assert (run.folder / "stdout.log").read_text() == "end of input\n"


def test_a_supervisor_that_was_killed_is_recognised_and_its_command_found(supervised: Start, gate: Gate) -> None:
    run = supervised(f"sh -c 'exit 3'; sh -c 'read x < {gate}'; echo on my own", "--background")
    assert run.end()[0] == 0
    (child,) = run.known("sh", containing="read x")
    state = run.state()
    assert state is not None
    supervisor = state.record.supervisor
    os.kill(supervisor.pid, signal.SIGKILL)
    wait_for("its end", lambda: not is_running(supervisor.pid, supervisor.start_ticks))
    state = run.state()
    assert state is not None
    assert state.state == "died"
    assert state.survivors is not None
    assert {child.pid, state.record.pid} <= set(state.survivors)
    # Its output didn't go through the supervisor, so it isn't harmed.
    gate.open()
    wait_for("its last words", lambda: (run.folder / "stdout.log").read_text() == "on my own\n")
    wait_for("its end", lambda: read_run(run.folder).survivors == [])


def test_a_foreground_supervisor_that_was_killed_is_recognised(supervised: Start) -> None:
    run = supervised("echo ready; exec sleep 1000")
    assert run.line() == "ready"
    (sleeper,) = run.known("sleep")
    run.process.kill()
    run.process.wait(timeout=60)
    state = run.state()
    assert state is not None
    assert (state.state, state.survivors) == ("died", [sleeper.pid])


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoSuchRun, match="holds no run"):
        read_run(tmp_path)
    (tmp_path / "running.json").write_text("{")
    with pytest.raises(NoSuchRun, match="can't be read"):
        read_run(tmp_path)


def test_the_help_does_not_show_the_inner_verb() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli.entry", "--help"], capture_output=True, text=True, check=True
    )
    assert "run" in done.stdout
    assert "supervise" not in done.stdout
