"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass
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
    """

    sign: Sign
    text: str
    consequence: str = ""
    mend: str = ""


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
