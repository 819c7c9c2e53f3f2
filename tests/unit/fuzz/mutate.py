"""Takes a valid example and breaks it: in its structure where it is JSON, in its lines and bytes in any case."""

# ruff: noqa: E501  # examples as they are

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

# What nobody expects in a place; each once broke somebody's parser.
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 7, 2**31, 2**63, -(2**70), 10**30, 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf"),
    "", " ", "x", "0", "-1", "1e999", "\0", "\ud800", "\u2028", "\u202e", "٣", "²", "9" * 400, "a" * 5000, "../../etc/passwd",
    "/etc/passwd", "<script>", "{{7*7}}", "%s%n", "\x1b[2J", [], {}, [[]], [None], {"": None}, {"a": [{}]}, [0] * 50,
)  # fmt: skip
FRAGMENTS = (
    b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\n", b"\n\n", b"\x1b[31m", b"[" * 3000, b'{"a":' * 3000,
    b"(" * 200, b"&a [*a]", b"!!python/object/apply:os.system [id]\n", b"${a}", b"<<: *a", b": ", b"- ", b"\t", b"{}",
    b'"', b"'", b",", b"-", b"9" * 5000, b"NaN", b"Infinity", b"null", b"-1", b"%", b"\\u0000", b"1e999", b"0x",
    "²".encode(), "٣".encode(), "𝟘".encode(), b"../", b"=", b"#",
)  # fmt: skip


def document(chance: Random, value: Any) -> Any:
    """A JSON document with one to three places that are otherwise than they should be."""
    value = copy.deepcopy(value)
    for _ in range(chance.randint(1, 3)):
        value = _one(chance, value)
    return value


def _one(chance: Random, value: Any) -> Any:
    if not isinstance(value, (dict, list)) or not value or chance.random() < 0.05:
        return copy.deepcopy(chance.choice(ODD))
    keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = chance.choice(keys)
    # Deeper, mostly: what lies at the top is looked at best.
    if isinstance(value[key], (dict, list)) and value[key] and chance.random() < 0.75:
        value[key] = _one(chance, value[key])
        return value
    what = chance.randrange(6)
    if what == 0:
        del value[key]
    elif what == 1:
        value[key] = copy.deepcopy(value[chance.choice(keys)])
    elif what == 2 and isinstance(value, dict):
        value[str(chance.choice(ODD))[:20]] = value.pop(key)
    elif what == 3 and isinstance(value, list):
        value.insert(key, copy.deepcopy(chance.choice(value)))
    elif what == 4:
        value[key] = [value[key]] if chance.random() < 0.5 else {"x": value[key]}
    else:
        value[key] = copy.deepcopy(chance.choice(ODD))
    return value


def raw(chance: Random, data: bytes) -> bytes:
    """Bytes or lines of a file, cut, doubled, moved, or with something put in between."""
    for _ in range(chance.randint(1, 3)):
        place = chance.randint(0, len(data))
        what = chance.randrange(7)
        if what == 0:
            data = data[:place]
        elif what == 1:
            data = data[:place] + chance.choice(FRAGMENTS) + data[place:]
        elif what == 2:
            data = data[:place] + data[place + chance.randint(1, 20) :]
        elif what == 3:
            data = data[:place] + bytes(chance.randrange(256) for _ in range(chance.randint(1, 8))) + data[place:]
        elif what == 4 and data:
            place = min(place, len(data) - 1)
            data = data[:place] + bytes([data[place] ^ (1 << chance.randrange(8))]) + data[place + 1 :]
        else:
            data = _lines(chance, data)
    return data


def _lines(chance: Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    what = chance.randrange(4)
    if what == 0:
        lines[one], lines[other] = lines[other], lines[one]
    elif what == 1:
        lines.insert(other, lines[one])
    elif what == 2:
        del lines[one]
    else:
        words = lines[one].split(b" ")
        words[chance.randrange(len(words))] = chance.choice(FRAGMENTS)
        lines[one] = b" ".join(words)
    return b"\n".join(lines)


def broken(chance: Random, example: bytes) -> bytes:
    """An example with something wrong in it."""
    try:
        value = json.loads(example) if chance.random() < 0.7 else None
    except ValueError:
        value = None
    if value is not None:
        text = json.dumps(document(chance, value), indent=chance.choice([None, 1])).encode()
        return raw(chance, text) if chance.random() < 0.1 else text
    lines = example.split(b"\n")
    one = chance.randrange(len(lines))
    try:
        # One document a line.
        lines[one] = json.dumps(document(chance, json.loads(lines[one]))).encode()
        return b"\n".join(lines)
    except ValueError:
        return raw(chance, example)
