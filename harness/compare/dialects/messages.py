"""Messages as OpenAI's API has them, and as chat templates have them. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def on_the_wire(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages as OpenAI's API wants them: a tool call's arguments are text there, and an object in templates."""
    found = []
    for message in messages:
        calls = [
            {**call, "function": {**call["function"], "arguments": _as_text(call["function"].get("arguments"))}}
            for call in message.get("tool_calls") or ()
        ]
        found.append({**message, "tool_calls": calls} if calls else dict(message))
    return found


def in_a_template(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The other way round."""
    found = []
    for message in messages:
        calls = [
            {**call, "function": {**call["function"], "arguments": _as_object(call["function"].get("arguments"))}}
            for call in message.get("tool_calls") or ()
        ]
        found.append({**message, "tool_calls": calls} if calls else dict(message))
    return found


def _as_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _as_object(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments
