"""Whether each call goes on where an earlier one ended; pure.

A framework finds the turns of a run by each history beginning with the one before, and the model's cache and the
trainer's one sequence stand on the same. So what an agent says again must be what was said, word for word.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.checks.lint.rule import Rule
from harness.openai_api.calls import Call

REWRITTEN = Rule(
    "history-rewritten",
    "history is only added to",
    "warn",
    "Turns are linked by their histories: this one counts as another conversation. With export_style concat it becomes "
    "a trajectory of its own, and the engine computes its whole prompt again.",
    "append messages, and never change, drop or summarise earlier ones",
)
TEMPLATE = Rule(
    "history-template",
    "chat template keeps earlier turns",
    "warn",
    "Tokens that the model generated are not in the next prompt, so the turns can't be joined to one sequence. Many "
    "templates drop the reasoning of earlier turns.",
    "use a template that keeps them, or train each turn by itself: export_style: individual in AReaL",
)
RULES = (REWRITTEN, TEMPLATE)

# Text that is tokenised again may need fewer tokens than the model took for it.
SLACK_TOKENS = 8
SLACK_SHARE = 0.25
# System prompts more alike than this are one that was changed; others belong to different agents.
ALIKE = 0.8


@dataclass(frozen=True)
class Break:
    """A call that doesn't go on where an earlier one ended.

    Args:
        index: of the call, among those that were given.
    """

    rule: Rule
    index: int
    detail: str


Message = tuple[str, str, tuple[tuple[str, str], ...]]


def judge(calls: Sequence[Call]) -> Iterator[Break]:
    """The breaks in the histories of a run's calls, in the order in which they were made."""
    said = [_messages(call) for call in calls]
    for index in range(1, len(calls)):
        found = _broken(calls, said, index)
        if found is not None:
            yield found


def _broken(calls: Sequence[Call], said: Sequence[list[Message]], index: int) -> Break | None:
    candidates: list[tuple[int, int]] = []
    for earlier in range(index - 1, -1, -1):
        at = _answer_in(calls[earlier], said[earlier], said[index])
        if at is None:
            continue
        if said[index][:at] == said[earlier]:
            return _template(calls, earlier, index)
        candidates.append((earlier, at))
    for earlier, at in candidates:
        difference = _difference(said[earlier], said[index][:at])
        if difference:
            return Break(
                REWRITTEN,
                index,
                f"call {calls[index].number} {difference} of call {calls[earlier].number}, although it goes on from it",
            )
    return None


def _answer_in(call: Call, asked: list[Message], later: list[Message]) -> int | None:
    """Where a call's answer stands in a later history; None where it doesn't, or could be something else there."""
    reply = call.reply
    if reply is None or not (reply.text.strip() or reply.tool_calls):
        return None
    answer: Message = (
        "assistant",
        reply.text.strip(),
        tuple((tool.name, _arguments(tool.arguments)) for tool in reply.tool_calls),
    )
    if answer in asked:
        return None  # an example in the prompt, or the model says the same again
    places = [number for number, message in enumerate(later) if message == answer]
    return places[0] if len(places) == 1 else None


def _difference(before: list[Message], now: list[Message]) -> str:
    """What became of a history, in words; empty where it may be another agent's."""
    first = next((n for n, (one, other) in enumerate(zip(before, now, strict=False)) if one != other), None)
    if first is None:
        return f"leaves out message {len(now) + 1} ({before[len(now)][0]})" if len(now) < len(before) else ""
    one, other = before[first], now[first]
    if one[0] == other[0] == "system":
        alike = difflib.SequenceMatcher(None, one[1][:4000], other[1][:4000]).ratio()
        return f"changes the system prompt (message {first + 1})" if alike >= ALIKE else ""
    if "system" in (one[0], other[0]) and before[first + 1 :] != now[first:]:
        return ""  # with and without a system prompt: two agents
    if other in before[first:]:
        return f"leaves out message {first + 1} ({one[0]})"
    if one in now[first:]:
        return f"puts something in before message {first + 1} ({one[0]})"
    return f"changes message {first + 1} ({one[0]})"


def _template(calls: Sequence[Call], earlier: int, index: int) -> Break | None:
    before, now = calls[earlier], calls[index]
    assert before.reply is not None
    if now.reply is None or _offered(before) != _offered(now):
        return None
    counts = (before.reply.prompt_tokens, before.reply.completion_tokens, now.reply.prompt_tokens)
    if None in counts:
        return None
    prompt, completion, next_prompt = (int(count or 0) for count in counts)
    missing = prompt + completion - next_prompt
    if missing <= max(SLACK_TOKENS, SLACK_SHARE * completion):
        return None
    return Break(
        TEMPLATE,
        index,
        f"call {now.number}'s prompt has {next_prompt} tokens, and call {before.number}'s prompt and answer have "
        f"{prompt + completion} together",
    )


def _offered(call: Call) -> str:
    request = call.request if isinstance(call.request, dict) else {}
    names = ("model", "tools", "tool_choice", "chat_template_kwargs")
    return json.dumps({name: request.get(name) for name in names}, sort_keys=True, default=str)


def _messages(call: Call) -> list[Message]:
    """A call's history; empty for what isn't a list of messages."""
    request = call.request if isinstance(call.request, dict) else {}
    given = request.get("messages", request.get("input"))
    found = [_message(one) for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    system = request.get("system") or request.get("instructions")
    return [("system", _text(system), ()), *found] if system else found


def _message(one: dict[str, Any]) -> Message:
    role = "system" if one.get("role") == "developer" else str(one.get("role") or one.get("type") or "")
    calls = one.get("tool_calls")
    tools = [call.get("function", {}) for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    named = tuple(
        (str(tool.get("name", "")), _arguments(tool.get("arguments", ""))) for tool in tools if isinstance(tool, dict)
    )
    return role, _text(one.get("content")).strip(), named


def _text(content: Any) -> str:
    if isinstance(content, str) or content is None:
        return content or ""
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else part for part in content]
        if all(isinstance(part, str) for part in parts):
            return "".join(map(str, parts))
    return json.dumps(content, sort_keys=True, default=str)


def _arguments(given: Any) -> str:
    """A tool call's arguments without differences that mean nothing."""
    try:
        return json.dumps(json.loads(given) if isinstance(given, str) else given, sort_keys=True)
    except (ValueError, TypeError):
        return str(given)
