"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from harness.errors import DrydockError

Sign = Literal["ok", "bad", "warn", "note"]


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's report.

    Attributes:
        sign: ``ok`` as it should be, ``bad`` wrong (exit code 1), ``warn`` may bite later, ``note`` neither.
        text: what was found.
        consequence: what follows from it.
        mend: commands that mend it, one a line.
        fix: the command that ``FIX=1`` offers to run, where it is a safe one; never read by a shell.
    """

    sign: Sign
    text: str
    consequence: str = ""
    mend: str = ""
    fix: tuple[str, ...] = ()


def mended(finding: Finding, *command: str) -> Finding:
    """The finding with a command that mends it and can be run without a second thought: ``FIX=1`` offers it.

    Args:
        command: a verb of ours (``harness``, and its words), or a program of the system's. It harms nothing that
            isn't ours, and loses nothing that anybody could miss.
    """
    return replace(finding, fix=command)


def ok(text: str) -> Finding:
    """Something is as it should be."""
    return Finding("ok", text)


def bad(text: str, consequence: str, mend: str) -> Finding:
    """Something is wrong; both what follows and what mends it have to be said."""
    return Finding("bad", text, consequence, mend)


def warn(text: str, consequence: str, mend: str = "") -> Finding:
    """Something may bite later."""
    return Finding("warn", text, consequence, mend)


def note(text: str, consequence: str = "", mend: str = "") -> Finding:
    """Neither good nor bad, but worth knowing."""
    return Finding("note", text, consequence, mend)


def of_error(error: DrydockError, sign: Sign = "bad") -> Finding:
    """The finding for an error that another verb would have stopped with."""
    return Finding(sign, error.what, error.consequence, error.mend)
