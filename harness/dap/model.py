"""What a debugger is told and what it tells, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Breakpoint:
    """A breakpoint or, with a message, a log point.

    Attributes:
        condition: an expression; empty: always.
        hit_count: debugpy's own form, a number or ``% 5 == 0``; empty: each time.
        log: a text with ``{expressions}``; it is printed, and nothing stops.
    """

    file: str
    line: int
    condition: str = ""
    hit_count: str = ""
    log: str = ""

    def as_dap(self) -> dict[str, Any]:
        """As the protocol has it."""
        named = {"condition": self.condition, "hitCondition": self.hit_count, "logMessage": self.log}
        return {"line": self.line, **{name: value for name, value in named.items() if value}}


@dataclass(frozen=True)
class Frame:
    """One frame of a stopped thread, innermost first in lists."""

    id: int
    name: str
    file: str
    line: int


@dataclass(frozen=True)
class Variable:
    """A name and how its value reads; ``reference`` is not 0 where it has parts."""

    name: str
    value: str
    type: str
    reference: int


@dataclass(frozen=True)
class Stop:
    """A thread has stopped.

    Attributes:
        reason: breakpoint, step, exception, pause, …
        text: of an exception, its type and message.
    """

    thread: int
    reason: str
    text: str = ""
