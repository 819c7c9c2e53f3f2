"""Entries in VS Code's ``launch.json``, without touching what else is in it: comments, order and all stay."""

from __future__ import annotations

import json
import os
import pwd
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.breakpoints.model import Paused
from harness.errors import LaunchFileUnreadable
from harness.places import in_container, write_whole

OURS = "Drydock: "
_EMPTY = '{\n    "version": "0.2.0",\n    "configurations": []\n}\n'
# A string, a comment, or one character that matters to the structure.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|[{}\[\]:,]', re.DOTALL)


def entry(line: Paused, *, remote_root: str, local_root: str = "${workspaceFolder}") -> dict[str, Any]:
    """What VS Code needs to attach to a worker."""
    worker = line.worker
    rank = f" rank {worker.rank}" if worker.rank is not None else ""
    return {
        "name": f"{OURS}attach to session {line.number}, {worker.name}{rank}",
        "type": "debugpy",
        "request": "attach",
        "connect": {"host": worker.ip, "port": worker.debugger_port},
        "pathMappings": [{"localRoot": local_root, "remoteRoot": root} for root in (*_copied(line.file), remote_root)],
        "justMyCode": False,
    }


def _copied(file: str) -> tuple[str, ...]:
    """The folder into which Ray has copied a job's working_dir, where that is what runs."""
    found = re.match(r"(.*/_ray_pkg_[^/]+)/", file)
    return (found[1],) if found else ()


def update(path: Path, entries: Sequence[dict[str, Any]], *, again: str = "") -> None:
    """Replace our own entries of a launch.json by these; the file is made where it is missing.

    Args:
        again: the command that did this, which works on the machine where a container's user may not write.

    Raises:
        LaunchFileUnreadable: it isn't JSON with comments, or has no list of configurations; it is left as it is.
    """
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else _EMPTY
        write_whole(path, updated(text, entries))
    except ValueError as error:
        raise LaunchFileUnreadable(f"{path} can't be read as JSON with comments: {error}.") from None
    except OSError as error:
        raise _unwritable(path, error, again) from None


def filled(own: str, template: str) -> str:
    """A launch.json as it is where somebody has put an entry of theirs into it; else the template with ours of it.

    Raises:
        ValueError: there is no list of configurations in one of them.
    """
    if not own.strip():
        return template
    _, items, _ = _configurations(own)
    ours = [own[a:b] for a, b in items if _is_ours(own[a:b])]
    if len(ours) < len(items):
        return own
    return updated(template, [json.loads(text) for text in ours])


def _unwritable(path: Path, error: OSError, again: str) -> LaunchFileUnreadable:
    """Says whose it is: the user of a container need not be the workspace's owner."""
    place = next((one for one in (path, *path.parents) if one.exists()), path)
    try:
        owner = place.stat().st_uid
    except OSError:
        owner = -1
    whose = f" {place} belongs to {_user(owner)}; this runs as {_user(os.geteuid())}." if owner >= 0 else ""
    what = f"{path} can't be written: {error.strerror}.{whose}"
    if in_container():
        return LaunchFileUnreadable(what, mend=f"on the machine: {again or 'make attach'}")
    return LaunchFileUnreadable(what, mend=f"ls -ld {place}   # let this user write there; or debug with TUI=1")


def _user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def updated(text: str, entries: Sequence[dict[str, Any]]) -> str:
    """The text with our entries last in ``configurations`` and every other character as it was.

    Raises:
        ValueError: there is no such list in it.
    """
    text = text if text.strip() else _EMPTY
    start, items, end = _configurations(text)
    if not items and entries and not text[start:end].strip():
        text = text[:start] + text[end:]
    kept = [(a, b) for a, b in items if not _is_ours(text[a:b])]
    new = [json.dumps(entry, indent=4).replace("\n", "\n        ") for entry in entries]
    if len(kept) == len(items):
        # Nothing of ours yet: put them behind the last one.
        at = items[-1][1] if items else start
        more = ",".join(f"\n        {part}" for part in new)
        return text[:at] + ("," if items and new else "") + more + ("\n    " if not items and new else "") + text[at:]
    for a, b in reversed([item for item in items if item not in kept]):
        text = _without(text, start, a, b)
    return updated(text, entries) if entries else text


def _without(text: str, start: int, a: int, b: int) -> str:
    """The text without the entry from a to b, the comma that belongs to it, and the line break before it."""
    after = re.compile(r"\s*,").match(text, b)
    before = re.compile(r",\s*$").search(text, start, a)
    if after:
        b = after.end()
    elif before:
        a = before.start()
    head = text[:a].rstrip(" \t")
    return (head.removesuffix("\n") if text[b : b + 1] == "\n" and after else head) + text[b:]


def _is_ours(text: str) -> bool:
    found = re.search(r'"name"\s*:\s*"((?:[^"\\]|\\.)*)"', text)
    return found is not None and found[1].startswith(OURS)


def _configurations(text: str) -> tuple[int, list[tuple[int, int]], int]:
    """Where the list of configurations begins, the spans of its objects, and where it ends."""
    tokens = list(_structure(text))
    for index, (token, _, _) in enumerate(tokens[:-2]):
        if token == '"configurations"' and tokens[index + 1][0] == ":" and tokens[index + 2][0] == "[":
            return _objects(tokens[index + 2 :])
    raise ValueError('it has no list "configurations"')


def _objects(tokens: list[tuple[str, int, int]]) -> tuple[int, list[tuple[int, int]], int]:
    start, depth, items, begin = tokens[0][2], 0, [], 0
    for token, a, b in tokens:
        if token in ("{", "["):
            depth += 1
            if token == "{" and depth == 2:
                begin = a
        elif token in ("}", "]"):
            depth -= 1
            if token == "}" and depth == 1:
                items.append((begin, b))
            if depth == 0:
                return start, items, a
    raise ValueError("a bracket isn't closed")


def _structure(text: str) -> Iterator[tuple[str, int, int]]:
    for match in _TOKEN.finditer(text):
        if not match[0].startswith(("//", "/*")):
            yield match[0], match.start(), match.end()
