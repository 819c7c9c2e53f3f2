"""Reads what else lies in a dump's folder: await chains of asyncio tasks, and Ray's list of actors."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from harness.hang.model import Frame, Hint, Loop, Task
from harness.hang.readers.paths import short

_WAITING = ("PENDING_CREATION", "DEPENDENCIES_UNREADY", "RESTARTING")
# ray/src/ray/protobuf/common.proto, ActorDiedErrorContext.Reason; and what Ray writes where it gives no reason.
_WANTED = frozenset({"OUT_OF_SCOPE", "REF_DELETED", "RAY_KILL"})
_WANTED_WORDS = ("all references to the actor were removed", "exit_actor", "INTENDED", "ray.kill", "owner has died")
_ROW = re.compile(r"^\s*\d+\s+([0-9a-f]{8,})\s+(\S+)\s+(ALIVE|DEAD|PENDING_CREATION|DEPENDENCIES_UNREADY|RESTARTING)\b")


def looks_like_tasks(head: bytes) -> bool:
    """Whether this may be a list of asyncio tasks."""
    return head.lstrip()[:1] == b"{" and b'"tasks"' in head


def read_tasks(data: bytes) -> tuple[int, list[Task], list[Loop]]:
    """The process's number, its tasks, and its event loops if all of them are told.

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
    return pid if isinstance(pid, int) else 0, tasks, _loops(content.get("loops"))


def _loops(content: object) -> list[Loop]:
    found = []
    for entry in content if isinstance(content, list) else []:
        due = entry.get("next_timer") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not all(isinstance(entry.get(key), int) for key in ("timers", "watched")):
            return []
        found.append(Loop(entry["timers"], due if isinstance(due, int | float) else None, entry["watched"]))
    return found


def looks_like_actors(head: bytes) -> bool:
    """Whether this is Ray's list of actors, as ``ray list actors`` prints it or as its API answers."""
    return (b"CLASS_NAME" in head and b"ACTOR_ID" in head) or (b'"actor_id"' in head and b'"class_name"' in head)


def read_actors(data: bytes) -> tuple[list[str], list[Hint]]:
    """Actors that wait for a place, and a hint for each that died.

    Ray lists actors of jobs that are over as well, and those that ended because nobody needed them any more. A job
    lives whose actors aren't all dead; where all are, the last one may.
    """
    rows = _rows(data.decode("utf-8", "replace"))
    living = {row.job for row in rows if row.state != "DEAD"} or {max((row.job for row in rows), default="")}
    pending: list[str] = []
    hints: list[Hint] = []
    for row in rows:
        if row.state in _WAITING:
            pending.append(f"{row.name} {row.identity[:8]}")
        elif row.state == "DEAD" and not row.ended_well and (not row.job or row.job in living):
            why = f": {row.why}" if row.why else ""
            hints.append(Hint("ray-died", f"actor {row.name} {row.identity[:8]} is dead{why}"))
    return pending, hints


TABLES = ("ray-actors.json", "ray-tasks.json", "ray-nodes.json", "ray-placement-groups.json")


def read_table(name: str, data: bytes) -> tuple[list[str], list[str]]:
    """What waits for a place by one of Ray's other tables, and what a person should know of it.

    Tasks that wait are only told: on a busy cluster they do so by design. So are dead nodes, who may have been taken
    away on purpose long ago.

    Raises:
        ValueError: this isn't such a table.
    """
    rows = _unwrapped(json.loads(data.decode("utf-8", "replace")))
    if not isinstance(rows, list):
        raise ValueError("no list of rows in it")
    rows = [row for row in rows if isinstance(row, dict)]
    if name == "ray-placement-groups.json":
        waiting = [row for row in rows if row.get("state") in ("PENDING", "RESCHEDULING")]
        return [f"placement group {row.get('name') or str(row.get('placement_group_id'))[:8]}" for row in waiting], []
    if name == "ray-nodes.json":
        dead = [row for row in rows if row.get("state") == "DEAD"]
        notes = [f"Ray has given node {row.get('node_ip')} up: {row.get('state_message') or '?'}" for row in dead[-3:]]
        return [], notes
    if name == "ray-tasks.json":
        tasks = [row for row in rows if row.get("state") == "PENDING_NODE_ASSIGNMENT"]
        names = ", ".join(dict.fromkeys(str(row.get("name")) for row in tasks[:4]))
        return [], [f"{len(tasks)} Ray tasks wait for a place, e.g. {names}"] if tasks else []
    return [], []


class _Actor(NamedTuple):
    """One row of the list; a printed one has the first three only."""

    identity: str
    name: str
    state: str
    job: str = ""
    reason: str = ""
    why: str = ""

    @property
    def ended_well(self) -> bool:
        """Whether it ended because somebody wanted that."""
        return self.reason in _WANTED or any(word in self.why for word in _WANTED_WORDS)


def _rows(text: str) -> list[_Actor]:
    if text.lstrip()[:1] not in "[{":
        return [_Actor(*match.groups()) for line in text.splitlines() if (match := _ROW.match(line))]
    try:
        content: Any = json.loads(text)
    except (ValueError, RecursionError):
        return []
    content = _unwrapped(content)
    if not isinstance(content, list):
        return []
    return [_actor(row) for row in content if isinstance(row, dict)]


def _actor(row: dict[str, Any]) -> _Actor:
    died = row.get("death_cause")
    context = next((part for part in died.values() if isinstance(part, dict)), {}) if isinstance(died, dict) else {}
    said = str(context.get("error_message") or "").strip().splitlines()[:1]
    return _Actor(
        str(row.get("actor_id", "")), str(row.get("class_name", "")), str(row.get("state", "")),
        str(row.get("job_id") or ""), str(context.get("reason") or ""), said[0][:160] if said else "",
    )  # fmt: skip


def _unwrapped(content: Any) -> Any:
    """The state API wraps its answer twice."""
    for key in ("data", "result", "result"):
        if isinstance(content, dict) and key in content:
            content = content[key]
    return content
