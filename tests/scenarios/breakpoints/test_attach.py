"""A debugger in a running process: it stops where it should, sees what is there, and leaves nobody paused."""

from __future__ import annotations

import re
import shutil
import socket
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.breakpoints import attach, gather, inject, relay
from harness.breakpoints.ask import NoAgent, ask
from harness.breakpoints.model import Paused, Worker
from harness.breakpoints.terminal.held import Held
from harness.dap.model import Breakpoint
from harness.dap.session import Session
from harness.errors import DebuggerBusy, DebuggerGone, DebuggerRefused, DebuggerSilent
from harness.processes.gdb import why_not
from tests.scenarios.breakpoints.conftest import PROGRAM, Program
from tests.support.harness import free_port, wait_for

FILE = str(PROGRAM)
LINE = next(number for number, text in enumerate(PROGRAM.read_text().splitlines(), 1) if "return reward" in text)


def asked(program: Program) -> Worker:
    """The program as a worker, listening for a debugger."""
    return attach.with_debugger(gather.asked([Worker(ip="127.0.0.1", pid=program.pid)])[0])


def attached(program: Program, *points: Breakpoint) -> Session:
    """A debugger in it."""
    worker = asked(program)
    session = attach.connected(worker)
    session.attach(breakpoints=points, timeout=60)
    return session


def test_a_conditional_breakpoint_in_a_process_without_any(program: Program) -> None:
    with attached(program, Breakpoint(FILE, LINE, condition="reward == -1.5")) as session:
        stop = session.wait_for_stop(timeout=30)
        frame = session.stack(stop.thread)[0]
        assert (frame.name, frame.line) == ("score", LINE)
        assert session.evaluate("reward", frame.id) == "-1.5"
        program.stands()
        names = {variable.name for variable in session.variables(frame.id)}
        assert {"reward", "prompt", "ids"} <= names
        session.evaluate("marked = 5", frame.id)
        assert session.evaluate("marked", frame.id) == "5"
        session.resume(stop.thread)
        # Once more round: the condition holds again five steps later.
        session.wait_for_stop(timeout=30)
    program.goes_on()


def test_hit_counts_and_log_messages(program: Program) -> None:
    with attached(program) as session:
        session.add_breakpoint(Breakpoint(FILE, LINE - 2, log="step {step}"))
        session.add_breakpoint(Breakpoint(FILE, LINE, hit_count="3"))
        session.wait_for_stop(timeout=30)
        assert sum("step " in text for text in session.output) >= 3
    program.goes_on()


def test_steps(program: Program) -> None:
    with attached(program, Breakpoint(FILE, LINE - 3)) as session:
        stop = session.wait_for_stop(timeout=30)
        session.resume(stop.thread, "next")
        stop = session.wait_for_stop(timeout=30)
        assert session.stack(stop.thread)[0].line == LINE - 2
        session.resume(stop.thread, "stepOut")
        stop = session.wait_for_stop(timeout=30)
        assert session.stack(stop.thread)[0].name == "main"
    program.goes_on()


def test_a_condition_that_raises_is_no_end(program: Program) -> None:
    with attached(program, Breakpoint(FILE, LINE, condition="nope > 1")):
        program.goes_on()
    program.goes_on()


def test_an_expression_that_never_returns_is_broken_off(program: Program) -> None:
    with attached(program, Breakpoint(FILE, LINE)) as session:
        frame = session.stack(session.wait_for_stop(timeout=30).thread)[0]
        with pytest.raises(DebuggerSilent) as caught:
            session.evaluate("[None for _ in iter(int, 1)]", frame.id, timeout=2)
        assert "It was broken off" in caught.value.consequence
        assert session.evaluate("6 * 7", frame.id) == "42"
    program.goes_on()


def test_an_expression_that_raises(program: Program) -> None:
    with attached(program, Breakpoint(FILE, LINE)) as session:
        frame = session.stack(session.wait_for_stop(timeout=30).thread)[0]
        with pytest.raises(DebuggerRefused, match="ZeroDivisionError"):
            session.evaluate("1 / 0", frame.id)
    program.goes_on()


def test_a_worker_that_dies_while_attached(program: Program) -> None:
    with attached(program, Breakpoint(FILE, LINE)) as session:
        session.wait_for_stop(timeout=30)
        program.process.kill()
        with pytest.raises(DebuggerGone):
            session.wait_for_event("never", timeout=30)
        with pytest.raises(DebuggerGone):
            session.threads()


def test_a_port_where_nobody_listens_any_more() -> None:
    with pytest.raises(DebuggerGone):
        Session.connect("127.0.0.1", 1)


def test_a_second_debugger_is_told_of_the_first(program: Program) -> None:
    with attached(program, Breakpoint(FILE, LINE)) as session:
        session.wait_for_stop(timeout=30)
        with pytest.raises(DebuggerBusy):
            asked(program)
        port = int(ask("127.0.0.1", program.pid, {"ask": "status"})["debugger"]["address"][1])
        with pytest.raises((DebuggerBusy, DebuggerGone)), Session.connect("127.0.0.1", port) as second:
            second.attach(timeout=3)
        assert session.evaluate("1 + 1", session.stack(next(iter(session.stopped)))[0].id) == "2"
    program.goes_on()
    # And after it has left, which debugpy notices in its own time, the next one gets in.
    here = Worker(ip="127.0.0.1", pid=program.pid)
    wait_for("the first debugger to be gone", lambda: not gather.asked([here])[0].attached)
    with attached(program, Breakpoint(FILE, LINE)) as session:
        session.wait_for_stop(timeout=30)
    program.goes_on()


def test_wrong_token(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "not the one")
    with pytest.raises(NoAgent, match="token"):
        ask("127.0.0.1", program.pid, {"ask": "status"})


def test_values_are_shown_without_moving_them(program: Program) -> None:
    with attached(program, Breakpoint(FILE, LINE)) as session:
        session.wait_for_stop(timeout=30)
        held = Held(1, "program", session)
        held.look()
        assert held.value("values") == "Vector (4,) float32 cuda:0"
        assert dict(held.locals())["values"] == "Vector (4,) float32 cuda:0"
        assert held.value("type(values).looked") == "0"
        step = int(held.value("step"))
        assert held.value("decode(ids)", "text") == repr(f"<{step}> <{step + 1}>")
        assert held.value("nope").startswith("!NameError")
        assert "min" in held.value("[1.0, float('nan'), 3.0]", "stats")
    program.goes_on()


def test_a_process_with_the_hook_alone_lets_a_debugger_in_at_a_signal(
    started: Callable[..., Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without gdb and ptrace, which a container's user has neither of; through the port of an editor's entry."""
    monkeypatch.setattr(inject, "_by_gdb", lambda *_: pytest.fail("gdb was asked"))
    program = started(asked=False)
    here = Worker(ip="127.0.0.1", pid=program.pid)
    assert gather.asked([here])[0].status is None
    for _ in range(2):  # whoever has left can come again
        wait_for("nobody else to be attached", lambda: not gather.asked([here])[0].attached)
        worker = asked(program)
        at = free_port()
        relay.begin(worker.ip, worker.debugger_port, at=at)
        with Session.connect("127.0.0.1", at) as session:
            session.attach(breakpoints=(Breakpoint(FILE, LINE),), timeout=60)
            frame = session.stack(session.wait_for_stop(timeout=30).thread)[0]
            assert (frame.name, frame.line) == ("score", LINE)
        program.goes_on()


def test_two_editors_at_one_port_are_told(program: Program) -> None:
    at = free_port()
    with socket.create_server(("127.0.0.1", at)), pytest.raises(DebuggerGone, match=str(at)):
        relay.begin("127.0.0.1", 1, at=at)
    program.goes_on()


def test_a_process_that_would_end_by_the_signal_is_not_sent_it(
    started: Callable[..., Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.delattr(sys, "remote_exec", raising=False)
    for container, mend in (("1", "container's own `python`"), ("", "apt-get install gdb")):
        monkeypatch.setenv("DRYDOCK_IN_CONTAINER", container)
        program = started(hook=False)
        with pytest.raises(DebuggerGone) as caught:
            asked(program)
        assert mend in caught.value.mend
        program.goes_on()


@pytest.mark.skipif(not shutil.which("gdb"), reason="no gdb here")
def test_a_process_that_nobody_prepared(started: Callable[..., Program]) -> None:
    program = started(hook=False)
    worker = gather.asked([Worker(ip="127.0.0.1", pid=program.pid)])[0]
    assert worker.status is None
    if sys.version_info < (3, 14) and (reason := why_not(shutil.which("gdb") or "")):
        with pytest.raises(DebuggerGone, match=re.escape(reason)):
            attach.held(Paused(1, worker, state="runs"))
        program.goes_on()
        return
    held = attach.held(Paused(1, worker, state="runs"))
    with held.session as session:
        session.add_breakpoint(Breakpoint(FILE, LINE))
        session.wait_for_stop(timeout=30)
    program.goes_on()


def test_a_process_that_is_not_there(program: Program) -> None:
    program.process.kill()
    program.process.wait()
    with pytest.raises(DebuggerGone, match="no process"):
        attach.with_debugger(replace(Worker(ip="127.0.0.1", pid=program.pid), problem="it is gone"))
