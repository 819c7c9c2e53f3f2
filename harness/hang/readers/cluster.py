"""Reads what else lies in a dump's folder: await chains of asyncio tasks, and Ray's list of actors."""

from __future__ import annotations

import json
import re
from typing import Any

from harness.hang.model import Frame, Hint, Task
from harness.hang.readers.paths import short

_WAITING = ("PENDING_CREATION", "DEPENDENCIES_UNREADY", "RESTARTING")
_ROW = re.compile(r"^\s*\d+\s+([0-9a-f]{8,})\s+(\S+)\s+(ALIVE|DEAD|PENDING_CREATION|DEPENDENCIES_UNREADY|RESTARTING)\b")


def looks_like_tasks(head: bytes) -> bool:
    """Whether this may be a list of asyncio tasks."""
    return head.lstrip()[:1] == b"{" and b'"tasks"' in head


def read_tasks(data: bytes) -> tuple[int, list[Task]]:
    """The process's number and its tasks.

    Raises:
        ValueError: this isn't such a list.
    """
    content = json.loads(data.decode("utf-8", "replace"))
    if not isinstance(content, dict) or not isinstance(content.get("tasks"), list):
        raise ValueError("no list of tasks in it")
    tasks = []
    for entry in content["tasks"]:
        if isinstance(entry, dict) and isinstance(entry.get("stack"), list):
            chain = tuple(
                Frame(
                    str(frame["name"]),
                    short(str(frame.get("file", ""))),
                    frame["line"] if isinstance(frame.get("line"), int) else 0,
                )
                for frame in entry["stack"]
                if isinstance(frame, dict) and "name" in frame
            )
            tasks.append(Task(str(entry.get("task", "")), chain, str(entry.get("waiting_on", ""))))
    pid = content.get("pid")
    return pid if isinstance(pid, int) else 0, tasks


def looks_like_actors(head: bytes) -> bool:
    """Whether this is Ray's list of actors, as ``ray list actors`` prints it or as its API answers."""
    return (b"CLASS_NAME" in head and b"ACTOR_ID" in head) or (b'"actor_id"' in head and b'"class_name"' in head)


def read_actors(data: bytes) -> tuple[list[str], list[Hint]]:
    """Actors that wait for a place, and a hint for each dead one."""
    text = data.decode("utf-8", "replace")
    pending: list[str] = []
    hints: list[Hint] = []
    for identity, name, state in _rows(text):
        if state in _WAITING:
            pending.append(f"{name} {identity[:8]}")
        elif state == "DEAD":
            hints.append(Hint("ray-died", f"actor {name} {identity[:8]} is dead"))
    return pending, hints


def _rows(text: str) -> list[tuple[str, str, str]]:
    if text.lstrip()[:1] not in "[{":
        return [match.groups() for line in text.splitlines() if (match := _ROW.match(line))]  # type: ignore[misc]
    try:
        content: Any = json.loads(text)
    except (ValueError, RecursionError):
        return []
    # The state API wraps its answer twice.
    for key in ("data", "result", "result"):
        if isinstance(content, dict) and key in content:
            content = content[key]
    if not isinstance(content, list):
        return []
    return [
        (str(row.get("actor_id", "")), str(row.get("class_name", "")), str(row.get("state", "")))
        for row in content
        if isinstance(row, dict)
    ]
