"""Starts the driver program, talks to it, and never leaves it behind."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import queue
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.ray_cluster.address import RayUnreachable, checked_address, host_and_port

CONNECT_SECONDS = 3.0
JOIN_SECONDS = 40.0
# A worker process takes a few seconds to come up on an idle node, and several times that on one that computes.
START_SECONDS = 30.0
_DRIVER = Path(__file__).with_name("driver.py")


@dataclass(frozen=True)
class Node:
    """One node of a cluster.

    Attributes:
        host: its own name for itself.
        address, port: where its raylet listens.
        death: why it is dead, where Ray knows.
    """

    id: str
    host: str
    address: str = ""
    port: int = 0
    alive: bool = True
    resources: dict[str, float] = field(default_factory=dict)
    death: str = ""

    @property
    def name(self) -> str:
        """What people tell it by."""
        return f"{self.host} (Ray node {self.id[:8]})"


@dataclass(frozen=True)
class Outcome:
    """What came of one node: an answer, or that another node answers for it, or why there is nothing.

    Attributes:
        same_as: id of the node with the same processes; "" where it is the asker's own place.
    """

    answer: bytes | None = None
    same_as: str | None = None
    error: str = ""


class Session:
    """A driver that has joined a cluster. Ends with the ``with`` block, or when this process does."""

    def __init__(self, address: str, *, seconds: float = JOIN_SECONDS) -> None:
        """Join.

        Raises:
            BadSetting: the address names no cluster for sure.
            RayUnreachable: it doesn't answer, or this Python's Ray doesn't fit it.
        """
        self.address = checked_address(address)
        _answers(self.address)
        self._process = _start_driver()
        self._lines: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="ray driver", daemon=True).start()
        try:
            self._tell({"address": self.address})
            opening = self._next(time.monotonic() + seconds)
        except BaseException:
            self.close()
            raise
        self.nodes = [Node(**node) for node in opening["nodes"]]
        self.dashboard = str(opening.get("dashboard") or "")

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def run(
        self,
        parcel: bytes,
        request: str,
        outcomes: dict[str, Outcome],
        arrived: threading.Condition,
        *,
        program: Path | None,
        seconds: float,
        skip: Sequence[tuple[str, int, int]] = (),
    ) -> None:
        """Run a Python archive once in each place of the cluster; outcomes are filled in as they come.

        Args:
            parcel: run as ``python parcel FOLDER``, gets the request on standard input, writes its answer.
            program: laid into that folder, which is last on its PATH.
            outcomes: node id to what came; ``arrived`` is notified for each.
            skip: places not to run in, as boot id, PID namespace, and the user there, to whom all is open if 0.

        Raises:
            RayUnreachable: the driver ended early; outcomes hold what came before.
        """
        deadline = time.monotonic() + seconds
        self._tell(
            {
                "parcel": base64.b64encode(parcel).decode(),
                "program": str(program) if program else "",
                "request": request,
                "start_seconds": min(START_SECONDS, seconds),
                "seconds": seconds,
                "skip": [list(own) for own in skip],
            }
        )
        while "done" not in (message := self._next(deadline + 5)):
            answer = message.get("answer")
            with arrived:
                outcomes[message["node"]] = Outcome(
                    base64.b64decode(answer) if answer is not None else None,
                    message.get("same_as"),
                    message.get("error", ""),
                )
                arrived.notify_all()

    def close(self) -> None:
        """End the driver; the cluster notices at once and ends its job."""
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except OSError:
                pass
        try:
            self._process.wait(timeout=3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _tell(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            pass  # its last words say why it has ended

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                self._lines.put(json.loads(line))
            except ValueError:
                break
        self._lines.put(None)

    def _next(self, deadline: float) -> dict[str, Any]:
        try:
            message = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise RayUnreachable("it doesn't answer; its control store may hang") from None
        if message is None:
            raise RayUnreachable("the driver that had joined it ended early")
        if "error" in message and "node" not in message:
            raise RayUnreachable(_plain(message["error"]))
        return message


def python_with_ray() -> str | None:
    """A Python that can import Ray: this one, or the one that `ray` on PATH belongs to."""
    found = importlib.util.find_spec("ray")
    # A mere folder of that name, such as Ray's own /tmp/ray, has no origin.
    if found is not None and found.origin is not None:
        return sys.executable
    program = shutil.which("ray")
    if program is None:
        return None
    try:
        with open(program, "rb") as file:
            first = file.readline(500).decode("utf-8", "replace").strip()
    except OSError:
        return None
    interpreter = first.removeprefix("#!").split(" ")[0]
    return interpreter if first.startswith("#!/") and os.access(interpreter, os.X_OK) else None


def _start_driver() -> subprocess.Popen[bytes]:
    python = python_with_ray()
    if python is None:
        raise RayUnreachable("Ray is neither installed beside Drydock nor on PATH; the cluster's own version is needed")
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_RECORD_ACTOR_TASK_LOGGING": "0"}
    return subprocess.Popen(
        [python, str(_DRIVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env=environment, start_new_session=True,
    )  # fmt: skip


def _answers(address: str) -> None:
    """Whether anybody listens there: Ray itself would go on asking for a minute."""
    host, port = host_and_port(address)
    try:
        socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise RayUnreachable(f"nobody answers at {host}:{port}: {error.strerror or error}") from None


def _plain(error: str) -> str:
    """Ray's words where they are good, ours where they aren't."""
    if "ersion mismatch" in error or "was started with" in error:
        versions = re.findall(r"(?:Ray|Python): ?[\w.+]+", error)
        detail = f" ({', '.join(versions)})" if versions else ""
        return f"its version isn't that of the Ray here{detail}; run this with a Python that has the cluster's"
    return error
