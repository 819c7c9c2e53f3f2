"""Reads a stack as a wait of a kind at a place, by the table in ``waits.yaml``."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import yaml

from harness.hang.model import Frame, Stack, Thread

# How much a kind says. Of all known calls between the top of the stack and the first line of somebody's own code the
# weightiest is the wait: `select` inside `Queue.get` inside a DataLoader is waiting for a data worker.
WEIGHTS: dict[str, float] = {
    "select": 1, "lock": 1, "sleep": 1, "message": 1, "pipe": 1, "socket": 1, "future": 1.5,
    "queue": 2, "mp-queue": 2, "join": 2, "subprocess": 2, "ray-idle": 2,
    "loop": 3, "rpc": 3, "http": 3, "cuda": 3, "pool-idle": 3, "pool-helper": 3, "engine-poll": 3,
    "p2p": 3.9, "collective": 4, "p2p-send": 4, "p2p-recv": 4, "destroy": 4, "init": 4, "new-group": 4, "store": 4,
    "ray-get": 4, "ray-fetch": 4, "ray-core": 4, "ray-place": 4.5, "rollout": 4, "capacity": 4.2, "file-lock": 4,
    "serve": 4, "launcher": 4, "nccl": 4.5,
    "abort": 5, "init-pipe": 5, "engine-idle": 5, "engine-reply": 5, "loader-idle": 5, "dataloader": 5,
}  # fmt: skip
_NATIVE_DISCOUNT = 0.5

# Waits that end only when other ranks do their part.
COLLECTIVE = frozenset({"collective", "nccl"})
P2P = frozenset({"p2p", "p2p-send", "p2p-recv"})
JOINED = COLLECTIVE | P2P
JOINING = frozenset({"init", "new-group", "store", "init-pipe"})
LEAVING = frozenset({"destroy", "abort"})
COMMUNICATION = JOINED | JOINING | LEAVING
# Waits of somebody who has nothing to do, which is no fault of theirs.
IDLE = frozenset(
    {"ray-idle", "serve", "engine-idle", "engine-poll", "loader-idle", "pool-idle", "pool-helper", "launcher"}
)
RUNNING = "running"
EXECUTOR = "concurrent/futures/thread.py"


@dataclass(frozen=True)
class Wait:
    """What one stack waits for.

    Attributes:
        kind: a key of ``WEIGHTS``, or ``running`` when no known wait is at its top.
        operation: the function that waits (``all_reduce``), or the top function when running.
        through: functions of libraries passed on the way, innermost first.
        place: the first frame of somebody's own code.
        own: all frames of own code, innermost first: the path that two ranks must share to be at the same line.
        clean: the stack without wrappers.
        phases: what the stack is about (cleanup, checkpoint, compile, …).
        helper: the thread belongs to a library and says nothing.
        on_loop: an event loop, or a server of one thread, runs below: what waits here holds up all that it has to do.
    """

    kind: str
    operation: str
    through: tuple[str, ...]
    place: Frame | None
    own: tuple[Frame, ...]
    clean: tuple[Frame, ...]
    phases: frozenset[str]
    helper: bool
    on_loop: bool

    @property
    def spot(self) -> tuple[str, str, tuple[Frame, ...]]:
        """Equal for threads that wait for the same thing at the same line."""
        return (self.kind, self.operation, self.own)

    def __str__(self) -> str:
        what = self.operation
        return f"{what} at {self.place}" if self.place is not None else what


class _Table:
    """The parsed table."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.bare_files = frozenset(row["file"].rpartition("/")[2] for row in data["waits"] if row.get("bare"))
        self.calls: dict[str, list[tuple[str, str, bool]]] = {}
        self.native: list[tuple[str, str, str]] = []
        for row in data["waits"]:
            for kind, functions in row["calls"].items():
                if kind not in WEIGHTS:
                    raise ValueError(f"waits.yaml: {row['file']}: no weight for the kind {kind}")
                for function in functions:
                    if row.get("native"):
                        self.native.append((row["file"], function, kind))
                    else:
                        self.calls.setdefault(function, []).append((row["file"], kind, bool(row.get("bare"))))
        self.phases = [
            (row["phase"], _union(row.get("functions")), _union(row.get("files")), bool(row.get("own_code")))
            for row in data["phases"]
        ]
        self.wrappers = [(row["file"], _union(row["functions"])) for row in data["wrappers"]]
        self.helper_calls = [(row["file"], _union(row["functions"])) for row in data["helpers"] if "file" in row]
        self.helper_names = [_union(row["names"]) for row in data["helpers"] if "names" in row]
        self.plumbing_packages = tuple(f"{name}/" if "." not in name else name for name in data["plumbing"]["packages"])
        self.plumbing_files = frozenset(data["plumbing"]["files"])


def _union(patterns: list[str] | None) -> re.Pattern[str] | None:
    return re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns)) if patterns else None


def load_table() -> None:
    """Read the table now rather than with the first stack."""
    _table()


@lru_cache(maxsize=1)
def _table() -> _Table:
    text = resources.files("harness.hang").joinpath("waits.yaml").read_text(encoding="utf-8")
    return _Table(yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def _same_file(file: str, known: str, bare: bool = False) -> bool:
    if known.endswith("/"):
        return file.startswith(known) or f"/{known}" in file
    return file == known or file.endswith("/" + known) or (bare and "/" not in file and known.endswith("/" + file))


@lru_cache(maxsize=65536)
def call_kind(frame: Frame) -> str | None:
    """The kind of wait that this call is; None for a call that no row knows."""
    table = _table()
    if frame.is_native:
        binary = frame.file.rpartition("/")[2]
        for library, name, kind in table.native:
            if frame.name.startswith(name) and (not binary or binary.startswith(library)):
                return kind
        return None
    for file, kind, bare in table.calls.get(frame.function, ()):
        if _same_file(frame.file, file, bare):
            return kind
    return None


@lru_cache(maxsize=65536)
def is_wrapper(frame: Frame) -> bool:
    """Whether this call only passes on to the next."""
    return not frame.is_native and any(
        _same_file(frame.file, file) and functions is not None and functions.match(frame.function)
        for file, functions in _table().wrappers
    )


@lru_cache(maxsize=65536)
def is_plumbing(frame: Frame) -> bool:
    """Whether this is a library's or the interpreter's own code rather than code that somebody would look into."""
    table = _table()
    known_files = frame.file in table.plumbing_files or frame.file in table.bare_files
    return frame.is_native or known_files or frame.file.startswith(table.plumbing_packages)


@lru_cache(maxsize=65536)
def phases_of(frame: Frame) -> frozenset[str]:
    """What a call is about."""
    if frame.is_native:
        return frozenset()
    # A script's own level: what its file is called says nothing of what is under way.
    own = not is_plumbing(frame) and frame.name != "<module>"
    return frozenset(
        phase
        for phase, functions, files, own_code in _table().phases
        if (functions is None or functions.match(frame.function))
        and (files is None or files.match(frame.file))
        and (own or not own_code)
    )


@lru_cache(maxsize=65536)
def _is_loop(frame: Frame) -> bool:
    """Whether it calls one piece of work after another: asyncio's loop, or a server that has no thread for each."""
    if frame.function == "_run_once":
        return frame.file.startswith("asyncio/")
    return frame.function == "_handle_request_noblock" and frame.file == "socketserver.py"


@lru_cache(maxsize=65536)
def _is_helper_call(frame: Frame) -> bool:
    return not frame.is_native and any(
        _same_file(frame.file, file) and functions is not None and functions.match(frame.function)
        for file, functions in _table().helper_calls
    )


def is_helper(thread: Thread) -> bool:
    """Whether a thread belongs to a library and may be left out: a monitor, a feeder, a watchdog."""
    if thread.is_main:
        return False
    if any(_is_helper_call(frame) for frame in thread.stack.frames):
        return True
    # An executor's thread is a helper as long as it has no task.
    if any(frame.function == "_worker" and frame.file == EXECUTOR for frame in thread.stack.frames):
        return read_stack(thread.stack).kind == "pool-idle"
    named = any(pattern is not None and pattern.match(thread.name) for pattern in _table().helper_names)
    return (
        named
        and not thread.active
        and not thread.holds_gil
        and not any(call_kind(f) in COMMUNICATION for f in thread.stack.frames)
    )


@lru_cache(maxsize=65536)
def read_stack(stack: Stack) -> Wait:
    """What a stack waits for; the same object for the same stack."""
    clean = tuple(frame for frame in stack.frames if not is_wrapper(frame))
    best: tuple[float, str, Frame] | None = None
    through: list[str] = []
    new_group = False
    for frame in clean:
        kind = call_kind(frame)
        if kind is None:
            if not is_plumbing(frame):
                break
            continue
        through.append(frame.function)
        new_group |= kind == "new-group"
        weight = WEIGHTS[kind]
        # Where Python and native code say the same, Python's name is the one that people know.
        if frame.is_native and kind not in ("nccl", "abort"):
            weight -= _NATIVE_DISCOUNT
        if best is None or weight > best[0]:
            best = (weight, kind, frame)
    own = tuple(frame for frame in clean if not is_plumbing(frame))
    phases: frozenset[str] = frozenset().union(*(phases_of(frame) for frame in clean)) if clean else frozenset()
    kind = best[1] if best else RUNNING
    if new_group and kind in ("init", "collective", "store"):
        kind = "new-group"
    return Wait(
        kind=kind,
        operation=best[2].function if best else (clean[0].function if clean else ""),
        through=tuple(through),
        place=own[0] if own else None,
        own=own,
        clean=clean,
        phases=phases,
        helper=any(_is_helper_call(frame) for frame in stack.frames),
        on_loop=any(_is_loop(frame) for frame in clean),
    )
