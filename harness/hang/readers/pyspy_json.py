"""Reads what ``py-spy dump --json`` prints: a list of threads, each with its frames innermost first."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from harness.hang.model import Frame, Thread, Threads
from harness.hang.readers.digits import whole
from harness.hang.readers.interning import Interner
from harness.hang.readers.paths import short

# py-spy writes a thread's fields in this order; anything else takes the slow way.
_HEAD = re.compile(
    rb'\s*\{\s*"pid":\s*(\d+),\s*"thread_id":\s*\d+,\s*"thread_name":\s*(null|"(?:[^"\\]|\\.)*"),'
    rb'\s*"os_thread_id":\s*(\d+|null),\s*"active":\s*(true|false),\s*"owns_gil":\s*(true|false),\s*"frames":'
)
_BEHIND, _TAIL = b'"process_info"', re.compile(rb'"process_info":\s*null\s*\}\s*(?:(\])\s*$|,)')
_LONGEST_HEAD = 4096


@dataclass
class Read:
    """One process as py-spy saw it; ``whole`` is False when the file ends too early."""

    pid: int
    threads: Threads
    whole: bool = True


def looks_like(head: bytes) -> bool:
    """Whether a file that begins like this may be py-spy's JSON."""
    return head.lstrip()[:1] == b"[" and (b'"frames"' in head or b'"thread_id"' in head)


def read(data: bytes, interner: Interner) -> list[Read]:
    """Read one dump; more than one process when somebody joined several.

    Raises:
        ValueError: this isn't a dump of py-spy's, nor the beginning of one.
    """
    fast = _read_fast(data, interner)
    return [fast] if fast is not None else _read_any(data, interner)


def _read_fast(data: bytes, interner: Interner) -> Read | None:
    """The usual case without parsing what has been parsed before; None when the text isn't exactly as py-spy writes it.

    In a string JSON writes quotes as ``\\"``, so what separates the fields can't be imitated by a name.
    """
    position = data.find(b"[") + 1
    if data[: position - 1].strip():
        return None
    threads: list[Thread] = []
    pid = 0
    while fields := _HEAD.match(data, position, position + _LONGEST_HEAD):
        if pid not in (0, whole(fields[1])):
            return None
        pid = whole(fields[1])
        stack, end = interner.known(data, fields.end(), len(threads))
        tail = _TAIL.match(data, end) if stack is not None else None
        if stack is None or tail is None:
            tail = _tail(data, fields.end())
            if tail is None:
                return None
            raw = data[fields.end() : tail.start()]
            try:
                stack = interner.by_raw(raw, lambda raw=raw: _frames(json.loads(raw.strip().rstrip(b","))))  # type: ignore[misc]
            except (ValueError, RecursionError):
                return None
            interner.keep_known(raw, stack, len(threads))
        name = "MainThread" if fields[2] == b"null" and fields[3] == fields[1] else _text(fields[2])
        threads.append(interner.thread(name, stack, fields[4] == b"true", fields[5] == b"true"))
        if tail[1]:
            return Read(pid, interner.threads(threads))
        position = tail.end()
    # It was cut between two threads, or is nothing that py-spy writes.
    return None


def _tail(data: bytes, start: int) -> re.Match[bytes] | None:
    """Where the frames that begin here are over; a local variable may be called like the field behind them."""
    while (start := data.find(_BEHIND, start)) >= 0:
        if tail := _TAIL.match(data, start):
            return tail
        start += 1
    return None


@lru_cache(maxsize=4096)
def _text(literal: bytes) -> str:
    """A thread's name from its JSON."""
    return str(json.loads(literal) or "")


def _read_any(data: bytes, interner: Interner) -> list[Read]:
    """Any other spelling, and the whole threads of a file that was cut."""
    text = data.decode("utf-8", "replace")
    whole = True
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        entries, whole = _whole_objects(text), False
    if not isinstance(entries, list):
        raise ValueError("not a list of threads")
    by_pid: dict[int, list[Thread]] = {}
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("frames"), list):
            continue
        pid = _number(entry.get("pid"))
        name = entry.get("thread_name")
        if not isinstance(name, str):
            name = "MainThread" if pid and entry.get("os_thread_id") == pid else ""
        active = entry.get("active")
        by_pid.setdefault(pid, []).append(
            interner.thread(
                name,
                interner.stack(_frames(entry["frames"])),
                active if isinstance(active, bool) else None,
                entry.get("owns_gil") is True,
            )
        )
    if not by_pid:
        raise ValueError("no thread in it")
    return [Read(pid, interner.threads(threads), whole) for pid, threads in by_pid.items()]


def _whole_objects(text: str) -> list[Any]:
    """The objects of a JSON list up to where the text is cut."""
    decoder = json.JSONDecoder()
    found: list[Any] = []
    position = text.find("[") + 1
    try:
        while position:
            while position < len(text) and text[position] in " \t\r\n,":
                position += 1
            value, position = decoder.raw_decode(text, position)
            found.append(value)
    except (ValueError, RecursionError):
        pass
    return found


def _frames(entries: Any) -> list[Frame]:
    if not isinstance(entries, list):
        raise ValueError("frames are not a list")
    frames = []
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        name = entry.get("name")
        # py-spy shortens by looking for __init__.py, which it can't see in another container; then we do it.
        file = entry.get("short_filename") or entry.get("filename") or entry.get("module") or ""
        if isinstance(name, str) and isinstance(file, str):
            frames.append(Frame(name, short(file), _number(entry.get("line"))))
    return frames


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else 0
