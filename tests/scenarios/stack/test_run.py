"""`run`: a command in `dev` that drives our cluster; what it said and how everything ended is kept."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from harness.errors import NoSuchRun
from harness.processes.record import RunRecord
from harness.processes.running import RunState, read_run
from tests.support.harness import CLONE, HARNESS, Ended, Stack, docker, wait_for

pytestmark = pytest.mark.docker

Run = Callable[..., tuple[Ended, RunRecord]]


def folders(stack: Stack) -> set[Path]:
    """The folders of all runs of a stack."""
    return {path for path in (stack.folder / "runs").glob("*-run*") if path.is_dir()}


@pytest.fixture
def run(stack: Stack) -> Run:
    """Runs a command to its end; gives how ``harness run`` ended, and what was kept."""

    def to_its_end(command: str, as_json: str = "") -> tuple[Ended, RunRecord]:
        before = folders(stack)
        ended = stack.run("run", CMD=command, JSON=as_json)
        (folder,) = folders(stack) - before
        state = read_run(folder)
        assert state.state == "ended", ended
        return ended, state.record

    return to_its_end


class Started:
    """A command that goes on until it is told to end.

    Args:
        stack: whose.
        before: the runs there were before it.
    """

    def __init__(self, stack: Stack, before: set[Path]) -> None:
        self.stack = stack
        self._before = before

    def folder(self) -> Path:
        """The run's folder; waits until it is there."""
        found: set[Path] = wait_for("the run's folder", lambda: folders(self.stack) - self._before)
        (folder,) = found
        return folder

    def state(self) -> RunState | None:
        """How it stands, None before there is anything to read."""
        try:
            return read_run(self.folder())
        except NoSuchRun:
            return None

    def wait_for_output(self, text: str) -> None:
        """Wait until the command has said this."""
        log = self.folder() / "stdout.log"
        wait_for(f"{text!r} in the output", lambda: log.exists() and text in log.read_text())


def in_dev(stack: Stack, text: str) -> list[str]:
    """Processes of `dev` with this in their command line, seen from this machine."""
    listing = docker("top", stack.container("dev"), "-eo", "pid,args").splitlines()[1:]
    return [line.strip() for line in listing if text in line]


def test_an_unmodified_training_script_is_a_driver_of_our_cluster(stack: Stack, run: Run, workspace: Path) -> None:
    (workspace / "train.py").write_text(
        textwrap.dedent("""
        import os, socket, ray
        ray.init()
        @ray.remote
        def step():
            return socket.gethostname()
        print("driver", socket.gethostname())
        print("task", ray.get(step.remote()))
        print("nodes", sum(node["Alive"] for node in ray.nodes()))
        print("server", os.environ["OPENAI_BASE_URL"], len(os.environ["OPENAI_API_KEY"]))
        """)
    )
    ended, record = run("python train.py")
    ended.ok()
    said = dict(line.split(" ", 1) for line in ended.stdout.splitlines() if " " in line)
    assert said["driver"] == stack.container("dev")[:12]
    assert said["task"] == stack.container("ray-head")[:12]
    assert said["nodes"] == "2"
    assert said["server"] == "http://inference:8080/v1 64"
    kept = stack.folder / "runs" / record.folder
    assert (kept / "stdout.log").read_text() == ended.stdout
    assert "Connected to Ray cluster" in (kept / "stderr.log").read_text()
    assert (record.exit_code, record.status, record.state) == (0, 0, "ended")
    assert record.command == "python train.py"
    assert any(process.main and process.exit_code == 0 for process in record.processes)
    # The key is the command's, not the report's.
    assert not [path for path in kept.rglob("*") if path.is_file() and stack.key() in path.read_text(errors="replace")]


def test_the_exit_code_is_the_commands_own(run: Run) -> None:
    ended, record = run("echo before; exit 7")
    assert ended.code == 7
    assert (record.exit_code, record.status, record.signal) == (7, 7, None)
    assert ended.stdout == "before\n"
    assert "ended with 7" in ended.stderr


def test_the_exit_codes_of_children_are_kept_though_the_command_ends_well(run: Run) -> None:
    # One that lives for less than it takes to look at it can be missed (harness/processes/births.py).
    ended, record = run("python -c 'import sys; sys.exit(3)'; sh -c 'sleep 0.2; kill -SEGV $$'; true")
    ended.ok()
    failed = {process.name: process for process in record.processes if process.failed}
    assert failed["python"].exit_code == 3
    assert failed["sh"].signal == "SIGSEGV"
    # Said at once too: this is how trainings "complete" without a step.
    assert "python" in ended.stderr


def test_what_is_no_command_is_said_by_the_shell(run: Run) -> None:
    ended, record = run("no-such-trainer --steps 3")
    assert ended.code == 127
    assert "no-such-trainer: command not found" in ended.stderr
    assert record.exit_code == 127
    assert "Traceback" not in ended.stderr


# As typed in a shell: what stands in single quotes is nobody's to expand, neither make's nor this machine's shell's.
LITERAL = """printf '<%s>' "it's" 'a "b"' '$HOME {x} `id` \\n' "$((6 * 7))" '$(shell id) $$ #' 'two
lines' """
ARRIVED = '<it\'s><a "b"><$HOME {x} `id` \\n><42><$(shell id) $$ #><two\nlines>'


def test_a_command_arrives_as_it_was_typed(run: Run) -> None:
    ended, record = run(LITERAL)
    assert ended.ok().stdout == ARRIVED
    assert record.command == LITERAL


@pytest.mark.parametrize("how", ["on make's command line", "in the environment"])
def test_a_command_arrives_through_make_as_it_was_typed(stack: Stack, how: str) -> None:
    before = folders(stack)
    typed = ["make", "--silent", "run"] + ([f"CMD={LITERAL}"] if how.startswith("on") else [])
    done = subprocess.run(
        typed, env=stack.environment(CMD=LITERAL), cwd=CLONE, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ARRIVED
    (folder,) = folders(stack) - before
    assert read_run(folder).record.command == LITERAL


def test_json_is_one_document_and_the_commands_output_is_kept_beside(run: Run) -> None:
    ended, record = run("echo said; exit 4", as_json="1")
    assert ended.code == 4
    assert RunRecord.model_validate(ended.json()) == record
    assert "said" in ended.stderr


def test_in_the_background_it_returns_at_once_and_is_followed_to_its_end(stack: Stack, workspace: Path) -> None:
    gate = workspace / "opened-by-the-test"
    os.mkfifo(gate)
    started = Started(stack, folders(stack))
    ended = stack.run("run", CMD=f"echo begun; read x < {gate.name}; echo $x; exit 6", BACKGROUND="1").ok()
    folder = started.folder()
    assert folder.name in ended.stdout + ended.stderr
    state = read_run(folder)
    assert state.state == "running"
    assert state.record.background
    assert in_dev(stack, f"read x < {gate.name}")
    gate.write_text("opened\n")
    wait_for("its end", lambda: read_run(folder).state != "running")
    record = read_run(folder).record
    assert (record.state, record.exit_code) == ("ended", 6)
    assert (folder / "stdout.log").read_text() == "begun\nopened\n"
    # Who followed it writes down the end and then ends itself.
    wait_for("nothing of it to be left", lambda: not in_dev(stack, gate.name))


# Two children of its own, one of which doesn't care for Ctrl-C; the number is what they are known by.
IGNORES = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('up', flush=True); time.sleep(4711)"
LASTING = f'python -c "{IGNORES}" & sleep 4711 & wait'


@pytest.fixture
def lasting(stack: Stack) -> Iterator[Started]:
    """Follows a command of a test's own, of which nothing may be there before or after."""
    assert not in_dev(stack, "4711")
    yield Started(stack, folders(stack))
    assert not in_dev(stack, "4711")
    assert not in_dev(stack, "harness supervise")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_without_a_terminal_ends_everything_in_the_container(
    stack: Stack, lasting: Started, number: signal.Signals
) -> None:
    process = subprocess.Popen(
        [str(HARNESS), "run"],
        env=stack.environment(CMD=LASTING, GRACE="0.2"),
        cwd=CLONE,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    lasting.wait_for_output("up")
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number, errors
    assert "Traceback" not in errors
    state = lasting.state()
    assert state is not None
    assert (state.state, state.record.signal) == ("ended", number.name)
    assert state.record.signals_passed_on == [number.name]


def test_ctrl_c_before_the_command_has_begun_ends_it_all_the_same(stack: Stack, lasting: Started) -> None:
    process = subprocess.Popen(
        [str(HARNESS), "run"],
        env=stack.environment(CMD=LASTING),
        cwd=CLONE,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for("docker exec", lambda: psutil.Process(process.pid).children())
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors


@pytest.mark.parametrize(
    ("command", "code"), [((str(HARNESS), "run"), 130), (("make", "--silent", "run"), 2)], ids=["harness", "make"]
)
def test_ctrl_c_at_a_terminal_ends_everything_in_the_container(
    stack: Stack, lasting: Started, command: tuple[str, ...], code: int
) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(CLONE)
        os.execvpe(command[0], command, stack.environment(CMD=LASTING, GRACE="0.2"))
    lasting.wait_for_output("up")
    os.write(terminal, b"\x03")
    shown = read_to_end(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code, shown
    assert "ended by SIGINT" in shown
    assert "Traceback" not in shown
    state = lasting.state()
    assert state is not None
    assert (state.state, state.record.signal) == ("ended", "SIGINT")


def read_to_end(terminal: int) -> str:
    """All that a terminal shows until nobody holds it any more."""
    shown = b""
    while True:
        try:
            data = os.read(terminal, 4096)
        except OSError:  # Linux says so when the last process has closed it
            data = b""
        if not data:
            os.close(terminal)
            return shown.decode(errors="replace")
        shown += data


def test_nothing_is_run_where_the_stack_is_down(stack: Stack, tmp_path: Path) -> None:
    nowhere = Stack(f"{stack.project}-none", tmp_path)
    ended = nowhere.run("run", CMD="true")
    assert ended.code == 1
    assert "isn't up" in ended.stderr
    assert not folders(nowhere)
