"""Lets a debugger into a process: one that is paused, one that only runs, one that was never prepared."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from harness.breakpoints import ask, inject, launch, show
from harness.breakpoints.model import Paused, Worker
from harness.breakpoints.terminal.held import Held
from harness.breakpoints.terminal.prompt import Prompt
from harness.dap.session import Session
from harness.errors import DebuggerBusy, DebuggerGone, DebuggerSilent
from harness.processes.leaving import leaving_on_signals

FIRST_STOP_SECONDS = 10.0
OTHER_STOPS_SECONDS = 2.0
# debugpy starts a process of its own, which takes its time on a busy machine.
LISTEN_SECONDS = 30.0


def with_debugger(worker: Worker) -> Worker:
    """The worker, listening for a debugger; one that isn't yet is told to.

    Raises:
        DebuggerError: it can't be told.
    """
    if worker.attached:
        raise DebuggerBusy(f"A debugger is attached to {worker.name} (PID {worker.pid}) already.")
    if worker.debugger_port:
        return worker
    if worker.problem or worker.status is None:
        inject.agent(worker, worker.problem or "it was not asked")
    try:
        found = ask.ask(worker.ip, worker.pid, {"ask": "listen"}, timeout=LISTEN_SECONDS)
    except ask.NoAgent as error:
        raise DebuggerGone(f"PID {worker.pid} lets no debugger in: {error}.") from None
    return replace(worker, debugger_port=int(found["port"]))


def listening(line: Paused) -> Paused:
    """The same, listening for a debugger."""
    return replace(line, worker=with_debugger(line.worker))


def as_entries(lines: Sequence[Paused], workspace: str) -> dict[str, Any]:
    """What VS Code needs for all that listen, the one that is meant first."""
    entries = [launch.entry(line, remote_root=workspace) for line in lines if line.worker.debugger_port]
    return {**lines[0].as_dict(), "entries": entries}


def connected(worker: Worker) -> Session:
    """A connection to a worker's debugger, by which an expression can be broken off."""
    session = Session.connect(worker.ip, worker.debugger_port)
    session.interrupt = lambda ident: _interrupt(worker, ident)
    return session


def _interrupt(worker: Worker, ident: int) -> None:
    ask.ask(worker.ip, worker.pid, {"ask": "interrupt", "ident": ident})


def held(line: Paused) -> Held:
    """Attach to one; waits for its stop if it waits for us.

    Raises:
        DebuggerError: see Session.
    """
    worker = with_debugger(line.worker)
    session = connected(worker)
    try:
        session.attach(timeout=FIRST_STOP_SECONDS)
        if worker.begins:
            # It runs on now; held at one of its first lines there is time to say where it is to stop.
            session.pause()
        if line.state == "waits":
            session.wait_for_stop(timeout=FIRST_STOP_SECONDS)
            _wait_for_others(session, len((worker.status or {}).get("paused") or ()))
    except DebuggerSilent:
        pass  # it wasn't paused any more; the prompt says that it runs
    except BaseException:
        session.detach()
        raise
    return Held(line.number, worker.name, session)


def _wait_for_others(session: Session, threads: int) -> None:
    """One attach lets all waiting threads of a process go to their stops, which come one after another."""
    deadline = time.monotonic() + OTHER_STOPS_SECONDS
    while len(session.stopped) < threads and time.monotonic() < deadline:
        time.sleep(0.02)


def terminal(line: Paused, others: Callable[[int], Paused]) -> None:
    """Debug in the terminal until the person leaves; every process goes on then, whatever the reason for leaving."""
    with leaving_on_signals():
        first = held(line)
        show.delays(line.delays)
        sessions = [first]
        everything = [first]

        def attach(number: int) -> Held:
            one = held(others(number))
            everything.append(one)
            return one

        try:
            Prompt(sessions, attach).run()
        finally:
            for one in everything:
                one.session.detach()
