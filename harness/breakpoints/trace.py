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

LOOK_SECONDS = 1.0
# How often a process that refuses is asked again, a look apart: while it starts, nothing listens in it yet.
ASKED_TIMES = 10


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


def matching(found: Iterable[Worker], *, actor: str = "", role: str = "") -> list[Worker]:
    """Those that are meant: of an actor class, of a role, or all."""
    return [
        worker
        for worker in found
        if (not role or worker.role == role)
        and (not actor or actor in (worker.actor, worker.task.split(".")[0], worker.actor_name))
    ]


def nobody(found: Iterable[Worker], *, actor: str = "", role: str = "") -> NothingTraced:
    """What to say where none of those that are there is meant; names what there is."""
    there = sorted({worker.actor or worker.role for worker in found})
    return NothingTraced(
        f"No process of that kind is there ({actor or role or 'any'}).",
        consequence=f"There are: {', '.join(there)}." if there else "The cluster has no workers now.",
        mend="make trace AT=… without ACTOR= and ROLE=   # looks at all",
    )


def run(
    request: Request, workers: Sequence[Worker], *, hit: Callable[[dict[str, Any]], None],
    armed: Callable[[dict[str, Any]], None], later: Callable[[], Sequence[Worker]] | None = None,
) -> Result:  # fmt: skip
    """Collect hits until there are enough or the time is over; every log point is off when this returns or raises.

    Args:
        hit: gets each hit as plain data, in the order in which they come.
        armed: is told of each process in which the line was found.
        later: lists those that are meant and there now. Asked again and again, because the actor that reaches the line
            is often created after its driver has started; None: only ``workers``.
    """
    talks = Talks(request)
    stop = threading.Event()
    talks.begin(workers)
    if later is not None:
        threading.Thread(target=_follow, args=(later, talks, stop), name="trace later", daemon=True).start()
    try:
        return _collect(request, talks.messages, hit, armed, following=later is not None)
    finally:
        stop.set()
        # At the end of its conversation a process switches its log point off.
        talks.close()


@dataclass(frozen=True)
class Looked:
    """The cluster was looked at once more, and with so many processes a conversation began."""

    begun: int


Message = tuple[Worker, "dict[str, Any] | str | None"] | Looked | Worker


class Talks:
    """One conversation a process. ``messages`` has each beginning (the worker itself), answers, refusals and ends."""

    def __init__(self, request: Request) -> None:
        self.messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._request = request
        self._lock = threading.Lock()
        self._closed = False
        self._open: list[Conversation] = []
        self._asked: dict[tuple[str, int, str], int] = {}
        self._refused: set[tuple[str, int, str]] = set()

    def begin(self, workers: Sequence[Worker]) -> int:
        """Begin with those that weren't asked yet, and again with those that refused: a process may just be starting.

        Returns with how many that is.
        """
        with self._lock:
            now = [worker for worker in workers if self._is_due(_key(worker))]
            for worker in now:
                self._asked[_key(worker)] = self._asked.get(_key(worker), 0) + 1
                self._refused.discard(_key(worker))
        # All of them first: who reads must not take the end of one for the end of all.
        for worker in now:
            self.messages.put(worker)
        for worker in now:
            threading.Thread(target=self._converse, args=(worker,), name=f"trace {worker.pid}", daemon=True).start()
        return len(now)

    def _is_due(self, key: tuple[str, int, str]) -> bool:
        times = self._asked.get(key, 0)
        return not times or (key in self._refused and times < ASKED_TIMES)

    def _converse(self, worker: Worker) -> None:
        try:
            conversation = Conversation(worker.ip, worker.pid, self._request.as_question())
            with self._lock:
                if self._closed:
                    conversation.close()
                    return
                self._open.append(conversation)
            for answer in conversation.answers():
                self.messages.put((worker, answer))
        except NoAgent as error:
            with self._lock:
                self._refused.add(_key(worker))
            self.messages.put((worker, str(error)))
        self.messages.put((worker, None))

    def close(self) -> None:
        """End them all."""
        with self._lock:
            self._closed = True
            for conversation in self._open:
                conversation.close()


def _key(worker: Worker) -> tuple[str, int, str]:
    return (worker.ip, worker.pid, worker.worker_id)


def _follow(later: Callable[[], Sequence[Worker]], talks: Talks, stop: threading.Event) -> None:
    pause = LOOK_SECONDS
    while not stop.wait(pause):
        began = time.monotonic()
        talks.messages.put(Looked(talks.begin(later())))
        # A large cluster takes its time to be listed: most of the time its dashboard is left alone.
        pause = max(LOOK_SECONDS, 10 * (time.monotonic() - began))


def _collect(
    request: Request, messages: queue.SimpleQueue[Message], hit: Callable[[dict[str, Any]], None],
    armed: Callable[[dict[str, Any]], None], *, following: bool,
) -> Result:  # fmt: skip
    result = Result()
    deadline = time.monotonic() + request.seconds
    names: dict[tuple[str, int, str], dict[str, Any]] = {}
    begun: set[tuple[str, int, str]] = set()
    running = 0
    while result.hits < request.hits:
        try:
            message = messages.get(timeout=max(deadline - time.monotonic(), 0.001))
        except queue.Empty:
            result.timed_out = True
            break
        if isinstance(message, Worker):
            running += 1
            begun.add(_key(message))
        elif isinstance(message, Looked):
            # Over when those that were there are gone and nobody came after them; before anybody came it is not.
            if begun and not running and not message.begun:
                break
        else:
            worker, said = message
            if said is None:
                running -= 1
                if not running and not following:
                    break
                continue
            _take(worker, said, result, names, hit, armed)
            if "armed" in said and _no_use_in_waiting(result, len(begun)):
                break
    return result


def _take(
    worker: Worker, message: dict[str, Any] | str, result: Result, names: dict[tuple[str, int, str], dict[str, Any]],
    hit: Callable[[dict[str, Any]], None], armed: Callable[[dict[str, Any]], None],
) -> None:  # fmt: skip
    key = _key(worker)
    if isinstance(message, str):
        result.refused = [*((known, why) for known, why in result.refused if _key(known) != key), (worker, message)]
    elif "armed" in message:
        names[key] = message
        result.refused = [(known, why) for known, why in result.refused if _key(known) != key]
        result.armed = [
            *((known, told) for known, told in result.armed if _key(known) != key),
            (worker, message["armed"]),
        ]
        armed(message["armed"])
    elif "hit" in message:
        result.hits += 1
        hit(labelled(worker, names.get(key, {}), message))
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
