"""What a run has left in its agent; runs in the child."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

# A container is known by its size. One that is filled by key may be a cache, which does no harm.
_PLAIN = (int, float, str, bytes, complex, tuple)
_SIZED = (list, deque, bytearray)
_MOST = 500


def of(agent: Any) -> dict[str, Any]:
    """What is plain in an agent's attributes, by name: values themselves, and the sizes of lists."""
    found: dict[str, Any] = {}
    for name, value in list(getattr(agent, "__dict__", {}).items())[:_MOST]:
        if type(value) in _SIZED:
            found[name] = (type(value), len(value))
        elif type(value) in _PLAIN and (type(value) is not tuple or all(type(item) in _PLAIN for item in value)):
            found[name] = value
    return found


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, str]]:
    """Attributes that a run has changed.

    One that was not there before, or was None, False or an empty text, may have been made at first use and is kept
    from then on; that is no state of a run.
    """
    return [
        {"name": name, "before": _shown(before[name]), "after": _shown(value)}
        for name, value in after.items()
        if name in before and before[name] not in ("", b"") and not _same(before[name], value)
    ]


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other or (one != one and other != other))


def _shown(value: Any) -> str:
    if isinstance(value, tuple) and len(value) == 2 and value[0] in _SIZED:
        return f"{value[0].__name__} of {value[1]}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
