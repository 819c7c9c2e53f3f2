"""How a setting is declared, and how a text becomes its value.

Every verb reads all settings first, so what they are made of is light: a dataclass, and click's types.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click

from harness.places import home, runs_dir

# Relative paths that are taken from the clone.
MADE_ABSOLUTE = frozenset(
    {"workspace", "requirements", "framework_src", "cache", "dir", "diff", "out", "from_folder", "token_file"}
)


class BadValue(ValueError):
    """A value that a setting can't have.

    Attributes:
        field: the setting.
        reason: why, in a few words.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field, self.reason = field, reason


class Secret:
    """A text that isn't shown."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_secret_value(self) -> str:
        """The text itself."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return "**********" if self._text else ""

    __repr__ = __str__


def field(default: Any, *, description: str, alias: str = "", choices: Sequence[str] = (), **limits: float) -> Any:
    """A setting.

    Args:
        alias: its name in the environment, where that isn't its own in capitals.
        choices: what it may be, where the type doesn't say.
        limits: ``ge``, ``gt``, ``le``, ``lt``: least and largest value.
    """
    about = {"description": description, "alias": alias, "choices": tuple(choices), "limits": limits}
    return dataclasses.field(default=default, metadata=about)


def as_meant(own: dataclasses.Field[Any], value: Any) -> Any:
    """A value as its field has it, out of a text or as it is.

    Raises:
        BadValue: it can't be read so, or is out of the field's limits.
    """
    try:
        return _as_kind(own, value)
    except click.BadParameter as error:
        raise BadValue(own.name, error.message.removesuffix(".")) from None
    except ValueError as error:
        raise BadValue(own.name, str(error)) from None


def _number(value: Any, kind: type, what: str) -> None:
    """Tell what isn't one in words that a person uses; its range is told by whoever knows that."""
    try:
        kind(value)
    except (TypeError, ValueError):
        raise ValueError(f"{str(value)!r} isn't {what}") from None


def _as_kind(own: dataclasses.Field[Any], value: Any) -> Any:
    kind, limits = own.type, own.metadata["limits"]
    if isinstance(kind, types.UnionType):
        kind = next(part for part in get_args(kind) if part is not types.NoneType)
    if choices := own.metadata["choices"] or (get_args(kind) if get_origin(kind) is Literal else ()):
        return click.Choice(choices).convert(value, None, None)
    if kind is bool:
        return click.BOOL.convert(value, None, None)
    if kind is int:
        _number(value, int, "a whole number")
        return click.IntRange(limits.get("ge"), limits.get("le")).convert(value, None, None)
    if kind is float:
        _number(value, float, "a number")
        number = click.FLOAT.convert(value, None, None)
        if math.isnan(number):
            raise ValueError("not a number")
        open_ends = {"min_open": "gt" in limits, "max_open": "lt" in limits}
        least, most = limits.get("ge", limits.get("gt")), limits.get("le", limits.get("lt"))
        return click.FloatRange(least, most, **open_ends).convert(number, None, None)
    if kind is Secret:
        return value if isinstance(value, Secret) else Secret(str(value))
    if kind is Path:
        return _path(own.name, Path(value))
    if not isinstance(value, str):
        raise ValueError("a text is meant")
    return _plain_name(value) if own.name in ("project", "namespace") else value


def _path(field: str, value: Path) -> Path:
    # ``runs/tape`` lies among the runs, wherever these are kept: on this machine, or in a container.
    if field in ("record", "replay") and value.parts[:1] == ("runs",):
        return runs_dir().joinpath(*value.parts[1:]).absolute()
    if field not in MADE_ABSOLUTE and field not in ("record", "replay"):
        return value
    # Paths are taken from the clone, so that make and the harness read them alike wherever they are called.
    try:
        return (home() / value.expanduser()).absolute()
    except RuntimeError:
        raise ValueError("no home folder of this user is known; set HOME") from None


def _plain_name(value: str) -> str:
    if not value or not all(c.isascii() and (c.islower() or c.isdigit() or c in "-_") for c in value):
        raise ValueError("small letters, digits, - and _ only")
    # Docker wants both of the names that begin with it, and 63 characters are the most that a network name takes.
    if value[0] in "-_" or len(value) > 40:
        raise ValueError("40 characters at most, the first a letter or a digit")
    return value
