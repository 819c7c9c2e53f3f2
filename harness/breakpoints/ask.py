"""Asks the thread that the hook started in a process (inside/agent.py)."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from harness.breakpoints.inside import keys
from harness.breakpoints.inside.agent import port_of

CONNECT_SECONDS = 2.0
# How many ports after a process's own one are looked at: two processes of a node seldom share one.
STEPS = 4


class NoAgent(Exception):
    """The process can't be asked; the text says why."""


class Conversation:
    """One question and its answers; closing it switches off what it had switched on."""

    def __init__(self, ip: str, pid: int, question: dict[str, Any]) -> None:
        self._connection, nonce = _connect(ip, pid)
        self._lines = self._connection.makefile("r", encoding="utf-8")
        proof = keys.proof(keys.secret(), nonce)
        self._connection.sendall(json.dumps({**question, "proof": proof}).encode() + b"\n")

    def answers(self, timeout: float | None = None) -> Iterator[dict[str, Any]]:
        """All answers until either side closes.

        Raises:
            NoAgent: it refuses, or says nothing for ``timeout`` seconds.
        """
        self._connection.settimeout(timeout)
        try:
            for line in self._lines:
                answer = json.loads(line)
                if "error" in answer:
                    raise NoAgent(str(answer["error"]))
                yield answer
        except socket.timeout:  # noqa: UP041  # another class before Python 3.10's successor
            raise NoAgent("it doesn't answer; is it stopped, or held by C code?") from None
        except (OSError, ValueError):
            return

    def close(self) -> None:
        """End it."""
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._connection.close()

    def __enter__(self) -> Conversation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def ask(ip: str, pid: int, question: dict[str, Any], *, timeout: float = CONNECT_SECONDS) -> dict[str, Any]:
    """The one answer to a question.

    Raises:
        NoAgent: there is none.
    """
    with Conversation(ip, pid, question) as conversation:
        for answer in conversation.answers(timeout):
            return answer
    raise NoAgent("it ended the conversation")


def _connect(ip: str, pid: int) -> tuple[socket.socket, str]:
    seen = "nothing listens: the process was started without the hook"
    for step in range(STEPS):
        try:
            connection = socket.create_connection((ip, port_of(pid, step)), timeout=CONNECT_SECONDS)
        except ConnectionRefusedError:
            continue
        except OSError as error:
            raise NoAgent(f"{ip} can't be reached: {error.strerror or error}") from None
        try:
            with connection.makefile("r", encoding="utf-8") as lines:
                greeting = json.loads(lines.readline(4096) or "{}")
            if greeting.get("drydock") == 1 and greeting.get("pid") == pid:
                return connection, str(greeting["nonce"])
        except socket.timeout:  # noqa: UP041
            seen = "it doesn't answer; is it stopped, or held by C code?"
        except (OSError, ValueError):
            pass
        connection.close()
    raise NoAgent(seen)
