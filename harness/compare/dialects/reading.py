"""Reads an answer, whatever it is: one that isn't in a dialect's form lacks something, and never raises else. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from harness.compare.dialects.base import Decoded, NotThere, Scored

Found = TypeVar("Found")

_FORMLESS = (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
# Of a token id, in the widest form that a reference takes.
_MOST = 2**31


def read(how: Callable[..., Found], answer: Any, *asked: Any) -> Found:
    """What a dialect finds in an answer.

    Args:
        how: the dialect's method.
        asked: what else it wants to know.

    Raises:
        NotThere: the answer has another form.
    """
    try:
        found = how(answer, *asked)
    except _FORMLESS as error:
        raise NotThere(f"the form that was expected ({type(error).__name__}: {error})"[:200]) from None
    if isinstance(found, (Decoded, Scored)):
        _only_tokens(found.top)
    if isinstance(found, Decoded):
        _only_tokens(found.ids)
        _only_tokens(found.prompt_ids)
        if not all(isinstance(text, str) for text in (found.text, found.finish)):
            raise NotThere("a text where one belongs")
        if not all(isinstance(count, (int, type(None))) for count in (found.prompt_tokens, found.cached)):
            raise NotThere("a number of tokens")
    if isinstance(found, list):
        _only_tokens(found)
    return found


def _only_tokens(ids: Any) -> None:
    if not isinstance(ids, list) or not all(type(token) is int and 0 <= token < _MOST for token in ids):
        raise NotThere("whole numbers as token ids")
