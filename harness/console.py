"""The only way to speak to a person.

``out()`` is for answers, ``err()`` for everything that only accompanies them, so that ``--json`` leaves standard
output clean. rich is loaded with the first thing that is printed: a hang dump has sampled everything before it says
a word. Without a terminal all output is plain lines: no colour, no moving parts. ``NO_COLOR`` is honoured by
rich itself. Whatever is printed here is made harmless first: names, messages and values come from agents, servers and
dumps, and a terminal obeys what it is sent.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from harness.errors import DrydockError
from harness.places import TYPED
from harness.printable import HARMFUL, printable_lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

OK, BAD, WARN, NOTE, MEND = "✓", "✗", "⚠", "·", "→"

_WIDE = 200
_STYLES = {"ok": "green", "bad": "bold red", "warn": "yellow", "note": "dim", "mend": "cyan", "head": "bold"}


@lru_cache(maxsize=2)
def _console(stderr: bool) -> Console:
    from rich.console import Console
    from rich.theme import Theme

    class Ours(Console):
        def on_broken_pipe(self) -> None:
            """Somebody's `| head` has seen enough, which is no failure; rich would end with 1."""
            raise BrokenPipeError

    # Rich takes a pipe or a file for a narrow terminal, and would break a table's cells there.
    width = None if (sys.stderr if stderr else sys.stdout).isatty() or "COLUMNS" in os.environ else _WIDE
    return Ours(theme=Theme(_STYLES), highlight=False, soft_wrap=True, stderr=stderr, width=width)


def out() -> Console:
    """Where answers go."""
    return _console(stderr=False)


def err() -> Console:
    """Where all else goes."""
    return _console(stderr=True)


def on_terminal() -> bool:
    """Whether answers go to a terminal, so that parts may move; known without rich where they don't."""
    asked = any(os.environ.get(name) for name in ("FORCE_COLOR", "TTY_COMPATIBLE"))
    return (asked or sys.stdout.isatty() or sys.stderr.isatty()) and out().is_terminal


def _safe(text: str) -> str:
    """Text for rich's markup in which nothing is markup, and nothing moves the cursor: much of it is foreign."""
    from rich.markup import escape

    return escape(printable_lines(text))


def line(text: str = "") -> None:
    """Print one plain line of an answer; the text is never read as markup."""
    out().print(printable_lines(text), markup=False)


def heading(text: str) -> None:
    """Print a line that opens a topic."""
    out().print(f"[head]{_safe(text)}[/head]")


def ok(text: str) -> None:
    """Print a line for something that is as it should be."""
    out().print(f"[ok]{OK}[/ok] {_safe(text)}")


def bad(text: str, mend_with: str = "") -> None:
    """Print a line for something that is wrong, and the command that mends it."""
    out().print(f"[bad]{BAD}[/bad] {_safe(text)}")
    if mend_with:
        mend(mend_with)


def warn(text: str, mend_with: str = "") -> None:
    """Print a line for something that may bite later."""
    out().print(f"[warn]{WARN}[/warn] {_safe(text)}")
    if mend_with:
        mend(mend_with)


def note(text: str) -> None:
    """Print a line that is neither good nor bad."""
    out().print(f"[note]{NOTE}[/note] {_safe(text)}")


def aside(text: str) -> None:
    """Print a note on standard error: what goes on meanwhile, and is no result."""
    err().print(f"[note]{NOTE}[/note] {_safe(text)}")


def mend(command: str) -> None:
    """Print the command that mends what the line above says."""
    out().print(f"  [mend]{MEND} {_safe(as_typed(command))}[/mend]")


def as_typed(command: str) -> str:
    """A command of ours with the project that was typed after this one: without it, it is about another stack."""
    project = _typed_project()
    if not project or "PROJECT=" in command:
        return command
    return re.sub(r"^make( [a-z][a-z-]*)+", lambda verbs: f"{verbs[0]} PROJECT={project}", command)


def _typed_project() -> str:
    """The project that was typed after this command, or after the one that was handed on into this container."""
    if "PROJECT" in os.environ.get("DRYDOCK_MAKE_VARS", "").split():
        return os.environ.get("PROJECT", "")
    try:
        return str(json.loads(os.environ[TYPED]).get("PROJECT", ""))
    except (KeyError, ValueError, AttributeError):
        return ""


def table(columns: list[str], rows: list[list[str]], title: str = "") -> None:
    """Print rows under column names; cells are plain text."""
    from rich.table import Table

    grid = Table(title=_safe(title) or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        grid.add_column(_safe(column), overflow="fold")
    for row in rows:
        grid.add_row(*[_safe(cell) for cell in row])
    out().print(grid, soft_wrap=False)


def facts(rows: list[list[str]]) -> None:
    """Print names and values, a line each; never wrapped, for people copy paths and addresses out of it."""
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        out().print(f"{_safe(name):<{width}}  {_safe(value)}")


def emit_json(value: Any) -> None:
    """Write one JSON document to standard output; nothing else may be printed there."""
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    text = json.dumps(value, indent=2, ensure_ascii=not utf8, default=str)
    # What JSON itself lets through: terminals obey 8-bit control characters as well, and halves can't be encoded.
    sys.stdout.write(
        "\n".join(HARMFUL.sub(lambda one: f"\\u{ord(one[0]):04x}", row) for row in text.split("\n")) + "\n"
    )
    sys.stdout.flush()


def to_stderr() -> None:
    """Send the lines meant for people to standard error, as every ``--json`` run does first."""
    out().file = sys.stderr


class Step:
    """A piece of work with a name; ``update`` says how far it is."""

    def __init__(self, text: str, status: Status | None) -> None:
        self.text = text
        self._status = status

    def update(self, detail: str) -> None:
        """Show how far the work is; on a terminal only, for it replaces the line before."""
        if self._status is not None:
            self._status.update(f"{_safe(self.text)} [note]{_safe(detail[:160])}[/note]")


@contextmanager
def step(text: str, *, quiet_below: float = 0.0) -> Iterator[Step]:
    """Show a piece of work while it lasts, then one line with its duration, ✓ or ✗.

    Args:
        quiet_below: seconds; success in less is not worth a line (the thing was there already).
    """
    started = time.monotonic()
    status = out().status(_safe(text)) if on_terminal() else None
    current = Step(text, status)
    if status is not None:
        status.start()
    sign, style = BAD, "bad"
    try:
        yield current
        sign, style = OK, "ok"
    finally:
        if status is not None:
            status.stop()
        seconds = time.monotonic() - started
        if sign == BAD or seconds >= quiet_below:
            out().print(f"[{style}]{sign}[/{style}] {_safe(current.text)} [note]{seconds:.1f} s[/note]")


def show_error(error: DrydockError) -> None:
    """Print an error's three sentences, and the log lines it carries, to standard error."""
    logs = getattr(error, "logs", "")
    if logs:
        err().print("[note]last lines of its log:[/note]")
        for text in logs.rstrip().splitlines():
            err().print(f"  {printable_lines(text)}", markup=False)
    err().print(f"[bad]{BAD}[/bad] {_safe(error.what)}")
    if error.consequence:
        err().print(f"  {_safe(error.consequence)}")
    for text in error.mend.splitlines():
        err().print(f"  [mend]{MEND} {_safe(as_typed(text))}[/mend]")
