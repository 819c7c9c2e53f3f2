"""Makes foreign text harmless to show: names of functions and files come from whoever wrote the dump."""

from __future__ import annotations

import re
from typing import Any

# What a terminal obeys, what turns the direction of writing, and halves of characters that can't be encoded.
HARMFUL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")


def printable(text: str, most: int = 2000) -> str:
    """The text with harmful characters written out (``\\x1b``), and not endless."""
    if len(text) > most:
        text = text[:most] + "…"
    return HARMFUL.sub(_written_out, text)


def _written_out(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "surrogatepass").decode("ascii")


def printable_lines(text: str) -> str:
    """The same for a text of several lines, of whatever length."""
    return HARMFUL.sub(_written_out, text) if "\n" not in text else "\n".join(map(printable_lines, text.split("\n")))


def printable_all(value: Any) -> Any:
    """The same for every string in a JSON-like value."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [printable_all(item) for item in value]
    if isinstance(value, dict):
        return {printable_all(key): printable_all(item) for key, item in value.items()}
    return value
