"""Stacks that differ in nothing but the numbers of processes and threads travel once, with the others' numbers.

Nothing is lost: from the one that travelled and its own numbers each dump is made again, byte by byte.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# As py-spy writes them. Within a string JSON has `\"pid\"`; and what else would match comes back the same as well.
_NUMBERS = re.compile(rb'("(?:pid|thread_id|os_thread_id)": ?)(\d+)')

# What one answer may be made of again: ten thousand processes of a node with deep stacks.
MOST_BYTES = 1 << 30

# Of a dump that is left out: which one it is like, and its own numbers in their order.
Alike = tuple[str, list[str]]


def grouped(dumps: Mapping[str, bytes]) -> tuple[dict[str, bytes], dict[str, Alike]]:
    """One dump of each group, and how the others come out of it."""
    kept: dict[str, bytes] = {}
    alike: dict[str, Alike] = {}
    first: dict[bytes, str] = {}
    for name, content in dumps.items():
        if content[:1] != b"[":
            kept[name] = content
            continue
        like = first.setdefault(_NUMBERS.sub(rb"\1", content), name)
        if like == name:
            kept[name] = content
        else:
            alike[name] = like, [match[2].decode() for match in _NUMBERS.finditer(content)]
    return kept, alike


def restored(kept: Mapping[str, bytes], alike: Mapping[str, Alike]) -> dict[str, bytes]:
    """All dumps again.

    Raises:
        ValueError: what is said of one doesn't fit the one that it should be like.
    """
    dumps = dict(kept)
    left = MOST_BYTES
    for name, (like, own) in alike.items():
        if not all(number.isdecimal() and number.isascii() for number in own):
            raise ValueError(f"{name}: numbers are none")
        if like not in kept or len(_NUMBERS.findall(kept[like])) != len(own):
            raise ValueError(f"{name} can't be made from {like}")
        rest = iter(own)
        content = _NUMBERS.sub(lambda match, rest=rest: match[1] + next(rest).encode(), kept[like])  # type: ignore[misc]
        dumps[name] = content
        left -= len(content)
        if left < 0:
            raise ValueError("more than an answer can hold comes out of it")
    return dumps
