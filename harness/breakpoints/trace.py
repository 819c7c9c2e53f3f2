"""Log points in running processes: choose them, arm them, collect hits, and leave nothing behind."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.breakpoints.ask import Conversation, NoAgent
from harness.breakpoints.inside.template import Condition, Template
from harness.breakpoints.model import Worker
from harness.errors import NothingTraced, UsageError

ARM_SECONDS = 20.0


@dataclass(frozen=True)
class Request:
    """What to trace.

    Attributes:
        log: a text with ``{expressions}``, as in an f-string.
        hits: how many to collect, over all processes.
        seconds: when to give up.
    """

    file: str
    line: int
    condition: str = ""
    log: str = ""
    hits: int = 20
    seconds: float = 120.0

    def as_question(self) -> dict[str, Any]:
        """For the process."""
        return {
            "ask": "trace", "file": self.file, "line": self.line, "if": self.condition, "log": self.log, "n": self.hits,
        }  # fmt: skip


@dataclass
class Result:
    """What came of it."""

    hits: int = 0
    armed: list[tuple[Worker, dict[str, Any]]] = field(default_factory=list)
    refused: list[tuple[Worker, str]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    ends: list[dict[str, Any]] = field(default_factory=list)
    timed_out: bool = False


def parsed(at: str, condition: str, log: str, hits: int, seconds: float) -> Request:
    """The request that the settings make up.

    Raises:
        UsageError: ``AT`` is no place, or an expression can't be read.
    """
    file, _, line = at.rpartition(":")
    if not file or not line.isdigit() or int(line) < 1:
        raise UsageError(f"AT={at} is no place.", mend="make trace AT=reward.py:42 LOG='{reward}'")
    try:
        Condition(condition)
        Template(log)
    except SyntaxError as error:
        which = "LOG" if _readable(condition) else "IF"
        raise UsageError(
            f"{which} can't be read: {error.msg}.",
            consequence="Nothing was traced.",
            mend="make trace AT=reward.py:42 IF='reward < -1' LOG='{reward:.3f} {prompt[:80]}'",
        ) from None
    return Request(file, int(line), condition, log, hits, seconds)


def _readable(condition: str) -> bool:
    try:
        Condition(condition)
    except SyntaxError:
        return False
    return True


def chosen(found: Iterable[Worker], *, actor: str = "", role: str = "", pid: int = 0) -> list[Worker]:
    """Those that are meant: of an actor class, a role, a PID, or all.

    Raises:
        NothingTraced: there are none; names what there is.
    """
    found = list(found)
    picked = [
        worker
        for worker in found
        if (not pid or worker.pid == pid)
        and (not role or worker.role == role)
        and (not actor or actor in (worker.actor, worker.task.split(".")[0], worker.actor_name))
    ]
    if not picked:
        there = sorted({worker.actor or worker.role for worker in found})
        raise NothingTraced(
            f"No process of that kind is there ({actor or role or pid or 'any'}).",
            consequence=f"There are: {', '.join(there)}." if there else "The cluster has no workers now.",
            mend="make trace AT=… without ACTOR= and PID=   # looks at all",
        )
    return picked


def run(
    request: Request, workers: Sequence[Worker], *, hit: Callable[[dict[str, Any]], None],
    armed: Callable[[dict[str, Any]], None],
) -> Result:  # fmt: skip
    """Collect hits until there are enough or the time is over; every log point is off when this returns or raises.

    Args:
        hit: gets each hit as plain data, in the order in which they come.
        armed: is told of each process in which the line was found.
    """
    result = Result()
    messages: queue.SimpleQueue[tuple[Worker, dict[str, Any] | str | None]] = queue.SimpleQueue()
    conversations: list[Conversation] = []
    lock = threading.Lock()

    def converse(worker: Worker) -> None:
        try:
            conversation = Conversation(worker.ip, worker.pid, request.as_question())
            with lock:
                conversations.append(conversation)
            for answer in conversation.answers():
                messages.put((worker, answer))
        except NoAgent as error:
            messages.put((worker, str(error)))
        messages.put((worker, None))

    for worker in workers:
        threading.Thread(target=converse, args=(worker,), name=f"trace {worker.pid}", daemon=True).start()
    try:
        _collect(request, len(workers), messages, result, hit, armed)
    finally:
        # At the end of its conversation a process switches its log point off.
        with lock:
            for conversation in conversations:
                conversation.close()
    return result


def _collect(
    request: Request, running: int, messages: queue.SimpleQueue[tuple[Worker, dict[str, Any] | str | None]],
    result: Result, hit: Callable[[dict[str, Any]], None], armed: Callable[[dict[str, Any]], None],
) -> None:  # fmt: skip
    deadline = time.monotonic() + request.seconds
    names: dict[int, dict[str, Any]] = {}
    of = running
    while running and result.hits < request.hits:
        try:
            worker, message = messages.get(timeout=max(deadline - time.monotonic(), 0.001))
        except queue.Empty:
            result.timed_out = True
            return
        if message is None:
            running -= 1
        elif isinstance(message, str):
            result.refused.append((worker, message))
        elif "armed" in message:
            names[id(worker)] = message
            result.armed = [(known, told) for known, told in result.armed if known is not worker]
            result.armed.append((worker, message["armed"]))
            armed(message["armed"])
            if _no_use_in_waiting(result, of):
                return
        elif "hit" in message:
            result.hits += 1
            hit(labelled(worker, names.get(id(worker), {}), message))
        elif "failed" in message:
            result.failed.append(message["failed"])
        elif "end" in message:
            result.ends.append(message["end"])


def _no_use_in_waiting(result: Result, of: int) -> bool:
    """Whether all have answered, the file is known, and it has no such line; a file may still be imported."""
    told = [answer for _, answer in result.armed]
    found = any(answer.get("functions") or answer.get("running") for answer in told)
    in_vain = any(answer.get("near") or answer.get("ambiguous") for answer in told)
    return len(told) + len(result.refused) >= of and not found and in_vain


def labelled(worker: Worker, names: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    """A hit with who it is from."""
    return {
        "time": message["time"],
        "text": message["hit"],
        "values": message["values"],
        "actor": worker.actor_name or names.get("actor") or worker.actor or worker.role,
        "rank": names.get("rank"),
        "node": worker.ip,
        "pid": worker.pid,
        "thread": message["thread"],
    }
