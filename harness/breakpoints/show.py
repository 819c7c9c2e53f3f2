"""Prints who is paused."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from harness import console
from harness.breakpoints.model import Paused


def lines(found: list[Paused], *, workspace: str = "") -> None:
    """A table of all, then what suffers, then what to do next."""
    if not found:
        console.note("Nothing is paused.")
        console.mend("make breakpoints WATCH=1   # waits for the next one")
        return
    rows = [
        [str(line.number), _what(line, workspace), f"{line.worker.ip} {line.worker.pid}", _since(line.since)]
        for line in found
    ]
    console.table(["session", "what and where", "node and PID", "since"], rows)
    for text, numbers in _by_delay(found).items():
        console.warn(f"{text} (session {', '.join(map(str, numbers))})")
    _raise_limits(text for line in found for text in line.delays)
    for problem in sorted({line.worker.problem for line in found if line.worker.problem}):
        console.note(f"where it stands is not known: {problem}")
    number = next((line.number for line in found if line.state == "waits"), found[0].number)
    console.mend(f"make attach SESSION={number} TUI=1   # debug it here")
    console.mend(f"make attach SESSION={number}         # an entry in VS Code's launch.json")


def delays(texts: Sequence[str]) -> None:
    """What suffers while a worker is held."""
    for text in texts:
        console.warn(text)
    _raise_limits(texts)


def _raise_limits(texts: Iterable[str]) -> None:
    if any(" give" in text for text in texts):
        console.mend("make up DEBUG=patient   # before the next long session: collectives then wait a day")


def attachable(found: dict[str, Any], path: Path) -> None:
    """Where VS Code finds the entry, and where the debugger listens."""
    console.ok(f"{path} has “{found['entries'][0]['name']}”")
    debugger = found["debugger"]
    console.note(
        f"in the dev container: Run and Debug, that entry; it attaches to {debugger['host']}:{debugger['port']}"
    )
    roots = [mapping["remoteRoot"] for mapping in found["entries"][0]["pathMappings"]]
    if found["file"] and not any(found["file"].startswith(root.rstrip("/") + "/") for root in roots):
        console.warn(
            f"{found['file']} is outside the workspace: an editor can't open it; the terminal shows its source"
        )
    delays(found["delays"])
    which = "PID" if found["state"] == "runs" else "SESSION"
    console.mend(f"make attach {which}={found['session']} TUI=1   # in the terminal instead")


def one(line: Paused, *, workspace: str = "") -> None:
    """One line for what has just come to a stop, for ``WATCH=1``."""
    what = f": {line.exception}" if line.exception else ""
    console.line(
        f"{time.strftime('%H:%M:%S')} session {line.number}  {line.worker.name}  "
        f"{line.worker.ip} {line.worker.pid}  {place(line, workspace)}{what}"
    )


def place(line: Paused, workspace: str = "") -> str:
    """File, line and function as people read them."""
    if not line.file:
        return line.function or "?"
    file = line.file.removeprefix(workspace.rstrip("/") + "/") if workspace else line.file
    return f"{file}:{line.line} {line.function}".rstrip()


def _what(line: Paused, workspace: str) -> str:
    """A line each for its name, its place and its state: side by side they don't go into 80 columns."""
    name = line.worker.name + (f" rank {line.worker.rank}" if line.worker.rank is not None else "")
    state = line.exception or ("a debugger is attached" if line.state == "attached" else "")
    where = place(line, workspace)
    if line.function and line.worker.name.startswith(line.function):
        where = where.removesuffix(f" {line.function}")
    return "\n".join(text for text in (name, f"  {where}", f"  {state}" if state else "") if text)


def _since(moment: float | None) -> str:
    if moment is None:
        return "?"
    seconds = max(time.time() - moment, 0)
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _by_delay(found: list[Paused]) -> dict[str, list[int]]:
    texts: dict[str, list[int]] = {}
    for line in found:
        for text in line.delays:
            if line.number not in texts.setdefault(text, []):
                texts[text].append(line.number)
    return texts
