"""What ``run`` returned, described in plain data; runs in the child, where the value still has its type."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

# A reward that prints as a megabyte is a mistake worth showing, but not whole.
MAX_REPR = 300
MAX_ITEMS = 1000


@dataclass(frozen=True)
class Value:
    """One returned value.

    Args:
        type: its full type name, ``numpy.float32``.
        shown: its ``repr``, cut.
        is_float: an instance of float; numpy.float64 is one, numpy.float32 isn't. AReaL accepts these alone.
        number: as a float where it can be read as one number; NaN and infinities as text in ``shown`` only.
        finite: False for NaN and infinities, None where it is no number.
    """

    type: str
    shown: str
    is_float: bool = False
    number: float | None = None
    finite: bool | None = None


@dataclass(frozen=True)
class Reward:
    """What ``run`` returned.

    Args:
        whole: the returned value itself.
        items: where it is a dict: its values by key, in order.
        keys: where it is a dict: the types of its keys.
    """

    whole: Value
    is_dict: bool = False
    items: dict[str, Value] = field(default_factory=dict)
    keys: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For the channel to the parent."""
        items = {key: dict(vars(item)) for key, item in self.items.items()}
        return {"whole": dict(vars(self.whole)), "is_dict": self.is_dict, "items": items, "keys": self.keys}

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Reward:
        """The reverse of ``as_dict``."""
        items = {key: Value(**item) for key, item in value["items"].items()}
        return cls(Value(**value["whole"]), value["is_dict"], items, tuple(value["keys"]))


def describe(value: Any) -> Reward:
    """Describe a returned value; never raises, whatever the value's methods do."""
    whole = _describe(value)
    if not isinstance(value, dict):
        return Reward(whole)
    items = {str(key): _describe(item) for key, item in list(value.items())[:MAX_ITEMS]}
    return Reward(whole, True, items, tuple(sorted({_type_name(key) for key in value})))


def _describe(value: Any) -> Value:
    is_float = isinstance(value, float)
    number = _as_number(value)
    finite = None if number is None else math.isfinite(number)
    return Value(_type_name(value), _shown(value), is_float, number if finite else None, finite)


def _as_number(value: Any) -> float | None:
    """The value as one float; strings, collections and tensors of many numbers are none."""
    if isinstance(value, (str, bytes, list, tuple, dict, set)) or value is None:
        return None
    try:
        return float(value)
    except Exception:  # noqa: BLE001  # a foreign __float__ may raise anything
        return None


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001  # a foreign __repr__ may raise anything
        return f"<{_type_name(value)} whose repr raises {type(error).__name__}>"
    return text if len(text) <= MAX_REPR else f"{text[:MAX_REPR]}… ({len(text)} characters)"


def _type_name(value: Any) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
