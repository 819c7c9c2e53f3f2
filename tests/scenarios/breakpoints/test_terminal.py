"""The terminal debugger and `trace` as a person runs them, on a terminal of their own."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from tests.scenarios.breakpoints.conftest import PROGRAM, Program
from tests.support.harness import CLONE, HARNESS, wait_for

LINE = next(number for number, text in enumerate(PROGRAM.read_text().splitlines(), 1) if "return reward" in text)


class Terminal:
    """A command on a terminal."""

    def __init__(self, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        environment = {**os.environ, "RAY_API_SERVER_ADDRESS": "http://127.0.0.1:9", "NO_COLOR": "1", "TERM": "dumb"}
        self.process = subprocess.Popen(
            [str(HARNESS), *arguments], cwd=CLONE, stdin=slave, stdout=slave, stderr=slave, env=environment,
            start_new_session=True, preexec_fn=None,
        )  # fmt: skip
        os.close(slave)
        self.text = ""

    def until_prompt(self, seconds: float = 60) -> str:
        """Read until the debugger asks for a command; returns what came."""
        deadline = time.monotonic() + seconds
        began = len(self.text)
        while not re.search(r"\n\(\d+(?: runs)?\) $", self.text[began:]):
            assert time.monotonic() < deadline, f"no prompt in:\n{self.text}"
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self.master, 65536).decode("utf-8", "replace")
                except OSError:
                    raise AssertionError(f"it ended:\n{self.text}") from None
        return self.text[began:]

    def type(self, line: str) -> str:
        """Type a command; returns what comes up to the next prompt."""
        os.write(self.master, line.encode() + b"\n")
        return self.until_prompt()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)


@pytest.fixture
def terminal(program: Program) -> Iterator[Terminal]:
    """The debugger, attached to the program, which runs."""
    made = Terminal("attach", "--pid", str(program.pid), "--tui")
    made.until_prompt(90)
    yield made
    made.end()


def stopped(terminal: Terminal) -> None:
    """Bring it to a stop in `score`."""
    assert "take" not in terminal.type("pause")
    terminal.type(f"break {PROGRAM}:{LINE} if step % 5 == 3")
    assert "return reward" in terminal.type("continue")


def test_a_walk_through_a_program(terminal: Terminal, program: Program) -> None:
    stopped(terminal)
    assert "-1.5" in terminal.type("p reward")
    assert "'prompt 3\\n'" in terminal.type("prompt")
    assert "Vector (4,) float32 cuda:0" in terminal.type("locals")
    assert "<" in terminal.type("decode ids")
    assert "main" in terminal.type("where")
    assert "main" in terminal.type("up")
    assert "score" in terminal.type("down")
    assert "->" in terminal.type("list")
    assert "NameError" in terminal.type("p nothing_of_that_name")
    assert "can't be read" in terminal.type("break 30 if reward <")
    assert "no code at this line" in terminal.type("break 3000")
    assert "ZeroDivisionError" in terminal.type("1/0")
    assert "stands" in terminal.type("sessions")
    assert "MainThread" in terminal.type("threads")
    terminal.type("!reward = 7")
    assert "7" in terminal.type("p reward")
    assert "main" in terminal.type("return")
    os.write(terminal.master, b"quit\n")
    assert terminal.process.wait(60) == 0
    program.goes_on()


def test_ctrl_c_while_it_runs_comes_back_to_the_prompt(terminal: Terminal, program: Program) -> None:
    stopped(terminal)
    terminal.type("clear")
    os.write(terminal.master, b"continue\n")
    program.goes_on()
    os.killpg(terminal.process.pid, signal.SIGINT)
    terminal.until_prompt()
    assert "score" in terminal.type("pause") or "main" in terminal.text
    os.write(terminal.master, b"\x04")
    assert terminal.process.wait(60) == 0
    program.goes_on()


def test_in_tmux_as_a_person_types(program: Program) -> None:
    if not shutil.which("tmux"):
        pytest.skip("there is no tmux")
    tmux = ["tmux", "-L", f"drydock-{os.getpid()}", "-f", "/dev/null"]

    def seen() -> str:
        return subprocess.run([*tmux, "capture-pane", "-pJ"], capture_output=True, text=True, check=True).stdout

    def wait(words: str) -> None:
        def there() -> bool:
            return words in seen() and bool(re.search(r"\n\(\d+(?: runs)?\) *$", seen().rstrip()))

        wait_for(f"{words!r} and a prompt", there)

    def type_(*keys: str) -> None:
        subprocess.run([*tmux, "send-keys", *keys], check=True)

    command = f"RAY_API_SERVER_ADDRESS=http://127.0.0.1:9 {HARNESS} attach --pid {program.pid} --tui"
    subprocess.run([*tmux, "new-session", "-d", "-x", "140", "-y", "50", "-c", str(CLONE), command], check=True)
    try:
        wait("`pause` stops it")
        type_("pause", "Enter")
        wait("->")
        type_(f"break {PROGRAM}:{LINE} if step % 5 == 3", "Enter")
        wait("step % 5 == 3")
        type_("continue", "Enter")
        wait("return reward")
        type_("p reward * 100", "Enter")
        wait("-150.0")
        type_("clear", "Enter", "continue", "Enter")
        program.goes_on()
        type_("C-c")
        type_("quit", "Enter")
        program.goes_on()
        wait_for("the end", lambda: subprocess.run([*tmux, "ls"], capture_output=True, check=False).returncode != 0)
    finally:
        subprocess.run([*tmux, "kill-server"], capture_output=True, check=False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_however_it_ends_nobody_stays_paused(terminal: Terminal, program: Program, number: signal.Signals) -> None:
    stopped(terminal)
    program.stands()
    os.kill(terminal.process.pid, number)
    terminal.process.wait(60)
    program.goes_on()


def trace(*programs: Program, **settings: str) -> subprocess.Popen[str]:
    """`harness trace` on one program."""
    environment = {**os.environ, "RAY_API_SERVER_ADDRESS": "http://127.0.0.1:9", "NO_COLOR": "1", **settings}
    return subprocess.Popen(
        [str(HARNESS), "trace", "--pid", str(programs[0].pid)],
        cwd=CLONE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip


def test_trace_notes_what_happens_and_nothing_stops(program: Program) -> None:
    command = trace(
        program, AT=f"program.py:{LINE}", IF="reward < -1", LOG="{reward:.3f} {prompt[:8]!r} {values}", N="4"
    )
    out, err = command.communicate(timeout=60)
    assert command.returncode == 0, err
    hits = [json.loads(line) for line in out.splitlines()]
    assert len(hits) == 4
    assert {hit["text"] for hit in hits} <= {
        "-1.500 'prompt 3' Vector(4,) float32 cuda:0", "-2.000 'prompt 4' Vector(4,) float32 cuda:0",
    }  # fmt: skip
    assert {hit["pid"] for hit in hits} == {program.pid}
    assert "cost: each time the line is reached" in err
    program.goes_on()


def test_ctrl_c_switches_a_log_point_off(program: Program) -> None:
    command = trace(program, AT=f"program.py:{LINE}", LOG="{step}", N="100000")
    assert command.stdout is not None
    assert json.loads(command.stdout.readline())["values"]["step"] > 0
    command.send_signal(signal.SIGINT)
    assert command.wait(60) == 130
    program.goes_on()


@pytest.mark.parametrize(
    ("settings", "code", "said"),
    [
        ({"AT": "program.py:4", "LOG": ""}, 1, "no code at line 4; nearest"),
        ({"AT": "program.py:9999", "LOG": ""}, 1, "no code at line 9999, and ends at line"),
        ({"AT": "program.py", "LOG": ""}, 2, "is no place"),
        ({"AT": f"program.py:{LINE}", "LOG": "{reward"}, 2, "LOG can't be read"),
        ({"AT": f"program.py:{LINE}", "IF": "reward ="}, 2, "IF can't be read"),
        ({"AT": "nobody_has_this.py:4", "TIMEOUT": "2"}, 1, "No process has loaded nobody_has_this.py"),
        ({"AT": f"program.py:{LINE}", "IF": "nope", "TIMEOUT": "2"}, 1, "NameError"),
    ],
)
def test_what_cannot_be_traced_is_said(program: Program, settings: dict[str, str], code: int, said: str) -> None:
    command = trace(program, **settings)
    _, err = command.communicate(timeout=60)
    assert (command.returncode, said in err) == (code, True), err
    program.goes_on()


def test_several_programs_one_prompt(started: Callable[..., Program]) -> None:
    one, two = started(), started()
    made = Terminal("attach", "--pid", str(one.pid), "--tui")
    try:
        made.until_prompt(90)
        stopped(made)
        two.goes_on()
        assert "runs" in made.type(f"attach {two.pid}")
        stopped(made)
        one.stands()
        two.stands()
        said = made.type("sessions")
        assert re.search(rf"^  {one.pid} .* stands\r?$", said, re.MULTILINE), said
        assert re.search(rf"^> {two.pid} .* stands\r?$", said, re.MULTILINE), said
        # Each has its own values, frames and breakpoints.
        pids = {}
        for program in (two, one):
            made.type(f"session {program.pid}")
            pids[program.pid] = f"{program.pid}" in made.type("p __import__('os').getpid()")
            made.type(f"!marked = {program.pid}")
        assert all(pids.values())
        made.type(f"attach {two.pid}")
        assert f"{two.pid}" in made.type("p marked")
        made.type("clear")
        os.write(made.master, b"continue\n")
        two.goes_on()
        # The other one stands, which is no news; a person comes back to it by themselves.
        os.killpg(made.process.pid, signal.SIGINT)
        made.until_prompt()
        assert f"{one.pid}" in made.type(f"session {one.pid}")
        one.stands()
        assert "isn't held here" in made.type("session 999999")
        assert "goes on by itself" in made.type("detach")
        one.goes_on()
        os.write(made.master, b"quit\n")
        assert made.process.wait(60) == 0
    finally:
        made.end()
    one.goes_on()
    two.goes_on()
