"""Every process that a command starts is in the record, with the way it ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from harness.processes.record import ProcessRecord, RunRecord
from tests.support.harness import CLONE, wait_for
from tests.support.supervised import PYTHON, Gate, Start, check_exit, gone, kernel_keeps_exits


def test_each_childs_exit_code_is_known_though_its_parent_reaped_it(supervised: Start, gate: Gate) -> None:
    # The children can't end before the test has seen them in the record.
    children = "; ".join(f"(exec -a child{code} sh -c 'read x < {gate}; exit {code}') &" for code in (0, 1, 7))
    run = supervised(f"{children.replace(' &;', ' &')} wait; exit 0")
    run.known("sh", 3)
    gate.open()
    code, _, err = run.end()
    assert code == 0
    children_by_command = {one.command.split()[0]: one for one in run.result().processes if one.command}
    for expected in (0, 1, 7):
        check_exit(children_by_command[f"child{expected}"], expected)
    if kernel_keeps_exits():
        assert "The command ended with 0, but 2 children did not" in err


def test_a_child_killed_by_a_signal(supervised: Start) -> None:
    run = supervised("sleep 1000 & echo $!; wait $!; echo after")
    child = int(run.line())
    run.known("sleep")
    os.kill(child, signal.SIGKILL)
    code, out, err = run.end()
    assert (code, out) == (0, b"after\n")
    (process,) = [one for one in run.result().processes if one.pid == child]
    check_exit(process, None, "SIGKILL")
    if kernel_keeps_exits():
        assert f"1 child didn't end by itself: sleep ({child}, SIGKILL)" in err


def test_a_daemon_forked_twice_is_followed_and_reaped(supervised: Start, gate: Gate) -> None:
    run = supervised(f"(setsid sh -c 'read x < {gate}; exit 5' < /dev/null > /dev/null 2>&1 &); echo forked; exit 0")
    assert run.line() == "forked"
    (daemon,) = run.known("sh")
    gate.open()
    assert run.end()[0] == 0
    record = run.result()
    (process,) = [one for one in record.processes if one.pid == daemon.pid]
    assert (process.exit_code, process.exit_source) == (5, "wait")  # it became the supervisor's child, so this is sure
    assert not process.left_behind


def test_a_grandchild_in_a_session_of_its_own_becomes_ours_when_its_parent_ends(supervised: Start) -> None:
    run = supervised("setsid sleep 1000 & echo $!; exit 2", "--grace", "1000")
    sleeper = int(run.line())
    run.known("sleep")
    os.kill(sleeper, signal.SIGUSR1)
    assert run.end()[0] == 2
    (process,) = [one for one in run.result().processes if one.pid == sleeper]
    assert (process.signal, process.exit_source, process.ended_by_us) == ("SIGUSR1", "wait", "")


def test_a_burst_of_short_children_is_recorded_or_counted(supervised: Start) -> None:
    run = supervised('for i in {1..200}; do sh -c "exit 3" & done; wait; exit 0')
    assert run.end()[0] == 0
    record = run.result()
    children = [one for one in record.processes if not one.main]
    # None may be lost without a word: those that came and went unseen are counted (with others' tasks, so "at least").
    assert record.unseen is None or len(children) + record.unseen >= 200
    # And of none may anything be claimed that isn't so.
    known = [one for one in children if not one.exit_note]
    assert {(one.exit_code, one.signal) for one in known} == {(3, None)}


def test_children_that_fork_only_are_seen_too(supervised: Start, gate: Gate) -> None:
    program = f"""
import os
for code in (0, 4):
    if os.fork() == 0:
        os.read(os.open({str(gate)!r}, os.O_RDONLY), 3)
        os._exit(code)
print("forked", flush=True)
for _ in range(2):
    os.wait()
"""
    run = supervised(f"exec {PYTHON} -c '{program.replace(chr(39), chr(34))}'")
    assert run.line() == "forked"

    def both() -> bool:
        state = run.state()
        return state is not None and len(state.record.processes) == 3

    wait_for("both children in the record", both)
    gate.open()
    assert run.end()[0] == 0
    children = [one for one in run.result().processes if not one.main]
    if kernel_keeps_exits():
        assert sorted(one.exit_code for one in children if one.exit_code is not None) == [0, 4]
    for child in children:
        assert child.command is not None
        assert "its parent's" in child.command_note


def test_a_zombie_is_recorded_once_however_long_it_stays(supervised: Start, gate: Gate) -> None:
    program = f"""
import os
if os.fork() == 0:
    os._exit(5)
print("forked", flush=True)
open({str(gate)!r}).readline()
"""
    run = supervised(f"exec {PYTHON} -c '{program.replace(chr(39), chr(34))}'")
    assert run.line() == "forked"
    lines = run.folder / "processes.jsonl"
    wait_for("the zombie in the list", lambda: lines.read_text() != "")
    # Each time the record is written anew, all processes have been listed, too.
    for _ in range(3):
        before = (run.folder / "running.json").stat().st_mtime_ns
        wait_for("a new record", lambda: (run.folder / "running.json").stat().st_mtime_ns != before)  # noqa: B023
    gate.open()
    assert run.end()[0] == 0
    (zombie,) = [one for one in run.result().processes if not one.main]
    assert (zombie.exit_code, zombie.exit_source) == (5, "zombie")
    assert len(lines.read_text().splitlines()) == 2


def test_a_child_that_closed_its_output_is_followed_on(supervised: Start, gate: Gate) -> None:
    run = supervised(f"sh -c 'exec >&- 2>&-; read x < {gate}; exit 6'; echo \"sh said $?\"")
    run.known("sh")
    gate.open()
    code, out, _ = run.end()
    assert (code, out) == (0, b"sh said 6\n")
    (process,) = [one for one in run.result().processes if one.name == "sh"]
    check_exit(process, 6)


def test_what_is_measured_makes_sense(supervised: Start) -> None:
    run = supervised(
        f"exec {PYTHON} -c 'x = b\"x\" * 200_000_000; [i * i for i in range(2_000_000)]; input()'",
        stdin=subprocess.PIPE,
    )
    (python,) = run.known(Path(sys.executable).name[:15])

    def measured() -> bool:
        state = run.state()
        return state is not None and any((one.peak_memory_bytes or 0) > 200_000_000 for one in state.record.processes)

    wait_for("200 MB measured", measured)
    assert run.process.stdin is not None
    run.process.stdin.write(b"\n")
    assert run.end()[0] == 0
    (process,) = [one for one in run.result().processes if one.main]
    assert process.pid == python.pid
    assert process.peak_memory_bytes is not None
    assert 200_000_000 < process.peak_memory_bytes < 400_000_000
    assert process.cpu_seconds is not None
    assert 0.01 < process.cpu_seconds < 60
    assert process.ended is not None
    assert process.started < process.ended
    assert gone(process)


def supervise_with(patch: str, command: str, folder: Path) -> list[ProcessRecord]:
    """Run a command under a supervisor for whom a part of the kernel is missing; returns the children."""
    program = f"""
from pathlib import Path
from harness.processes import exits
from harness.processes.supervise import Plan, supervise
from harness.runs import RunFolder
{patch}
print(supervise(Plan({command!r}, RunFolder.create(Path({str(folder)!r}), "run"))).model_dump_json())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(CLONE)}, capture_output=True, check=True
    )
    record = RunRecord.model_validate_json(done.stdout)
    assert record.exit_code == 0
    return [one for one in record.processes if not one.main]


def test_a_kernel_that_forgets_exits_makes_some_unknown_and_none_wrong(tmp_path: Path) -> None:
    # As before Linux 6.15. Which child's zombie is seen in time is luck, so there are many.
    children = supervise_with(
        "exits.of_pidfd = lambda pidfd: None", 'for i in {1..200}; do sh -c "exit 3" & done; wait; exit 0', tmp_path
    )
    assert children
    for child in children:
        assert (child.exit_code, child.exit_source) in ((3, "zombie"), (None, None))
        assert bool(child.exit_note) == (child.exit_source is None)
        assert "Linux 6.15" in child.exit_note or "gone too soon" in child.exit_note or not child.exit_note


def test_where_handles_on_processes_are_forbidden_they_are_followed_all_the_same(tmp_path: Path) -> None:
    patch = """
def forbidden(pid):
    raise PermissionError(1, "Operation not permitted")
exits.open_pidfd = forbidden
"""
    # The child's parent never asks for its exit status, so its zombie stays to be read, or comes to us.
    children = supervise_with(patch, f"exec {PYTHON} -c 'import os; os.fork() or os._exit(7)'", tmp_path)
    (child,) = children
    assert (child.exit_code, child.exit_note) == (7, "")


def can_run(prefix: tuple[str, ...]) -> bool:
    """Whether this clone and its interpreter can be read by that user."""
    done = subprocess.run(
        [*prefix, sys.executable, "-c", "import harness.cli.main"],
        env={**os.environ, "PYTHONPATH": str(CLONE)},
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else to try it")
def test_without_any_privilege_it_works_as_well(supervised: Start, tmp_path: Path) -> None:
    as_user = ("setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "--bounding-set=-all", "--no-new-privs")
    if not can_run(as_user):
        pytest.skip("the clone or its Python lies where only root can read it")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        gate = Gate(folder / "gate")
        gate.path.chmod(0o666)
        command = f"setsid sleep 1000 & sh -c 'read x < {gate}; exit 7'; exit 0"
        run = supervised(command, "--grace", "0", prefix=as_user, runs=folder / "runs")
        run.known("sh")
        run.known("sleep")
        gate.open()
        code, _, err = run.end()
        assert code == 0, err
        by_name = {one.name: one for one in run.result().processes}
        check_exit(by_name["sh"], 7)
        assert by_name["sleep"].left_behind
        gate.close()
