"""A thread that answers questions about its process, over TCP, to those who know the secret.

It waits in ``accept``: nobody asks, nothing is spent. A conversation is lines of JSON: the process says
``{"drydock": 1, "pid": …, "nonce": …}``, the other side ``{"proof": …, "ask": …, …}``, then come answers until either
side closes. What was switched on for a conversation (log points) is switched off at its end, however it ends.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
import threading
from typing import Any

from harness.breakpoints.inside import AGENT_PORTS, keys, listening
from harness.breakpoints.inside.wire import send, try_send

GREETING_SECONDS = 5.0


class Agent:
    """The listening socket of a process and what it is asked about."""

    def __init__(self, role: str, host: str) -> None:
        self.role = role
        self.host = host or "127.0.0.1"
        self.socket = _bound(self.host)
        self.port: int = self.socket.getsockname()[1]

    def serve(self) -> None:
        """Answer for ever, each conversation in a thread of its own."""
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            _thread(lambda connection=connection: self._converse(connection), "drydock-conversation")

    def _converse(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.settimeout(GREETING_SECONDS)
                nonce = secrets.token_hex(16)
                send(connection, {"drydock": 1, "pid": os.getpid(), "nonce": nonce})
                with connection.makefile("r", encoding="utf-8") as lines:
                    question = json.loads(lines.readline(1 << 20) or "{}")
                expected = keys.proof(keys.secret(), nonce)
                if not secrets.compare_digest(str(question.get("proof", "")), expected):
                    send(connection, {"error": "wrong token"})
                    return
                connection.settimeout(None)
                self._answer(connection, question)
            except (OSError, ValueError):
                pass  # whoever asked is gone
            except Exception as error:  # noqa: BLE001
                try_send(connection, {"error": f"{type(error).__name__}: {error}"})
            try:
                # Also where something else still holds the socket, a child that was forked meanwhile.
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _answer(self, connection: socket.socket, question: dict[str, Any]) -> None:
        ask = question.get("ask")
        if ask == "status":
            from harness.breakpoints.inside import status

            send(connection, status.of_this_process(self.role))
        elif ask == "fitness":
            from harness.breakpoints.inside import fitness

            send(connection, fitness.of_this_process())
        elif ask == "listen":
            send(connection, listening.listen(self.host))
        elif ask == "interrupt":
            send(connection, {"interrupted": _interrupt(int(question["ident"]))})
        elif ask == "trace":
            from harness.breakpoints.inside import tracing

            tracing.serve(connection, question)
        else:
            send(connection, {"error": f"nothing is known of {ask!r}"})


def _interrupt(ident: int) -> int:
    """Raise KeyboardInterrupt in a thread at its next step of Python; returns how many threads that were."""
    import ctypes

    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    return int(raise_in(ctypes.c_ulong(ident), ctypes.py_object(KeyboardInterrupt)))


running: Agent | None = None
_lock = threading.Lock()


def start(role: str, host: str = "") -> None:
    """Start the thread, once a process."""
    global running
    with _lock:
        if running is not None:
            return
        running = Agent(role, host)
        _thread(running.serve, "drydock-agent")


def _thread(target: Any, name: str) -> None:
    thread = threading.Thread(target=target, name=name, daemon=True)
    # pydevd's marks for threads that no debugger is to stop or to slow down.
    thread.is_pydev_daemon_thread = True  # type: ignore[attr-defined]
    thread.pydev_do_not_trace = True  # type: ignore[attr-defined]
    thread.start()


def _bound(host: str) -> socket.socket:
    """A listening socket on the first free port after the one that belongs to this process's number."""
    for step in range(len(AGENT_PORTS)):
        found = socket.socket()
        # Not inherited by what the process starts (Python's default), so that the port ends with it.
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((host, port_of(os.getpid(), step)))
            found.listen(16)
            return found
        except OSError:
            found.close()
    raise OSError(f"no free port on {host} from {AGENT_PORTS.start} to {AGENT_PORTS.stop - 1}; see {sys.argv[0]}")


def port_of(pid: int, step: int = 0) -> int:
    """The port at which a process is looked for first (``step`` 0), second, …"""
    return AGENT_PORTS[(pid + step) % len(AGENT_PORTS)]
