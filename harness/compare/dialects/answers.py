"""What the answers of several engines have in common. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from harness.compare.dialects.base import NotThere

# vLLM writes this for −inf, which JSON has not.
_FLOOR = -9999.0


def number(value: Any) -> float:
    """A log-prob; what stands for −inf becomes it, and what is no number NaN."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    return -math.inf if value <= _FLOOR else float(value)


def choice_of(answer: Any) -> Mapping[str, Any]:
    """The only choice of an answer in OpenAI's form; ``NotThere`` where there is none."""
    choices = answer.get("choices") if isinstance(answer, Mapping) else None
    if not choices or not isinstance(choices[0], Mapping):
        raise NotThere("choices")
    found: Mapping[str, Any] = choices[0]
    return found


def usage_of(answer: Any) -> dict[str, Any]:
    """How many tokens the prompt has, and how many of them came from a cache; None where it isn't said."""
    usage = (answer.get("usage") if isinstance(answer, Mapping) else None) or {}
    details = usage.get("prompt_tokens_details") or {}
    return {"prompt_tokens": usage.get("prompt_tokens"), "cached": details.get("cached_tokens")}


def text_of(answer: Any, name: str) -> str:
    """A text in an answer; ``NotThere`` where there is none."""
    found = answer.get(name) if isinstance(answer, Mapping) else None
    if not isinstance(found, str):
        raise NotThere(name)
    return found


def ids_of(answer: Any, name: str) -> list[int]:
    """Token ids in an answer; ``NotThere`` where there are none."""
    found = answer.get(name) if isinstance(answer, Mapping) else None
    if not isinstance(found, list) or not all(isinstance(token, int) for token in found):
        raise NotThere(name)
    return list(found)
