"""What an answer of a language model says, whichever of the four protocols it comes in.

Pure, and without any import beyond the standard library: the same code reads probes of a server, calls that a proxy
saw, and calls observed inside an agent's process. It is lenient in what it reads and strict in what it reports: every
place where an answer leaves its protocol is in ``deviations``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.openai_api.sse import Event

Protocol = Literal["chat", "completions", "messages", "responses", "other"]

# AReaL's proxy serves these routes without /v1, so only their ends are looked at.
_ROUTES: tuple[tuple[str, Protocol], ...] = (
    ("/chat/completions", "chat"),
    ("/completions", "completions"),
    ("/messages", "messages"),
    ("/responses", "responses"),
)


def protocol_of(path: str) -> Protocol:
    """The protocol that a request path speaks; ``other`` for model lists, health, embeddings and the like."""
    bare = path.partition("?")[0].rstrip("/")
    return next((name for end, name in _ROUTES if bare.endswith(end)), "other")


@dataclass(frozen=True)
class ToolCall:
    """A call that the model wants made.

    Args:
        arguments: as the server sent them, a JSON text for OpenAI; parsed by ``parsed``.
    """

    name: str
    arguments: str
    id: str = ""

    @property
    def parsed(self) -> dict[str, Any] | None:
        """The arguments as an object, or None where they aren't one (small models send a bare string)."""
        try:
            value = json.loads(self.arguments)
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None


@dataclass
class Reply:
    """What the model answered.

    Args:
        id: the completion's id, by which AReaL gives a reward to one call.
        prompt_tokens: None where the server doesn't say.
        choices: number of choices; AReaL's proxy can only give one.
        deviations: where the answer leaves its protocol, one sentence each.
    """

    id: str = ""
    model: str = ""
    text: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    choices: int = 0
    deviations: list[str] = field(default_factory=list)


def read_body(protocol: Protocol, body: Any) -> Reply:
    """Read a whole (not streamed) answer."""
    reply = Reply()
    if not isinstance(body, dict):
        reply.deviations.append("the body is no JSON object")
        return reply
    reply.id, reply.model = _text(body.get("id")), _text(body.get("model"))
    if not reply.id:
        reply.deviations.append("no id")
    if protocol == "messages":
        _read_messages(reply, body)
    elif protocol == "responses":
        _read_responses(reply, body)
    else:
        _read_choices(reply, body, protocol)
    if reply.completion_tokens is None:
        reply.deviations.append("no usage: the number of tokens is unknown")
    if reply.finish_reason is None:
        reply.deviations.append("no finish reason")
    return reply


def _read_choices(reply: Reply, body: dict[str, Any], protocol: Protocol) -> None:
    _read_usage(reply, body.get("usage"))
    choices = _dicts(body.get("choices"))
    reply.choices = len(choices)
    if not choices:
        reply.deviations.append("no choices")
        return
    reply.finish_reason = _text(choices[0].get("finish_reason")) or None
    if protocol == "completions":
        reply.text = _text(choices[0].get("text"))
        return
    message = choices[0].get("message")
    if not isinstance(message, dict):
        reply.deviations.append("choices[0] has no message")
        return
    reply.text = _text(message.get("content"))
    for call in _dicts(message.get("tool_calls")):
        reply.tool_calls.append(_tool_call(call, reply.deviations))


def _tool_call(call: dict[str, Any], deviations: list[str]) -> ToolCall:
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        deviations.append("a tool call's arguments are no JSON text")
        arguments = json.dumps(arguments)
    return ToolCall(_text(function.get("name")), arguments, _text(call.get("id")))


def _read_messages(reply: Reply, body: dict[str, Any]) -> None:
    _read_usage(reply, body.get("usage"))
    reply.finish_reason = _text(body.get("stop_reason")) or None
    blocks = _dicts(body.get("content"))
    reply.choices = 1
    if not isinstance(body.get("content"), list):
        reply.deviations.append("content is no list of blocks")
    reply.text = "".join(_text(block.get("text")) for block in blocks if block.get("type") == "text")
    reply.tool_calls = [
        ToolCall(_text(block.get("name")), json.dumps(block.get("input")), _text(block.get("id")))
        for block in blocks
        if block.get("type") == "tool_use"
    ]


def _read_responses(reply: Reply, body: dict[str, Any]) -> None:
    _read_usage(reply, body.get("usage"))
    reply.finish_reason = _text(body.get("status")) or None
    reply.choices = 1
    output = _dicts(body.get("output"))
    if not isinstance(body.get("output"), list):
        reply.deviations.append("output is no list")
    for item in output:
        if item.get("type") == "function_call":
            reply.tool_calls.append(
                ToolCall(_text(item.get("name")), _text(item.get("arguments")), _text(item.get("call_id")))
            )
        reply.text += "".join(_text(part.get("text")) for part in _dicts(item.get("content")))


def _read_usage(reply: Reply, usage: Any) -> None:
    """Token counts under OpenAI's or Anthropic's names; Anthropic counts cached prompt tokens apart."""
    if not isinstance(usage, dict):
        return
    asked = _whole(usage.get("prompt_tokens"))
    if asked is None and (asked := _whole(usage.get("input_tokens"))) is not None:
        asked += _whole(usage.get("cache_read_input_tokens")) or 0
        asked += _whole(usage.get("cache_creation_input_tokens")) or 0
    given = _whole(usage.get("completion_tokens"))
    given = _whole(usage.get("output_tokens")) if given is None else given
    reply.prompt_tokens = reply.prompt_tokens if asked is None else asked
    reply.completion_tokens = reply.completion_tokens if given is None else given


class StreamReader:
    """Puts a streamed answer together, event by event.

    Args:
        protocol: of the request that is being answered.
    """

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self.error = ""
        self._reply = Reply()
        self._ended = False
        self._calls: dict[int, dict[str, str]] = {}

    def feed(self, event: Event) -> bool:
        """Take one event; returns whether it carried output of the model (text or part of a tool call)."""
        if event.data.strip() == "[DONE]":
            self._ended = True
            return False
        try:
            data = json.loads(event.data)
        except (ValueError, RecursionError):
            self._deviation("an event's data is no JSON")
            return False
        if not isinstance(data, dict):
            self._deviation("an event's data is no JSON object")
            return False
        if data.get("error"):
            self.error = json.dumps(data["error"])[:300]
            return False
        if self.protocol == "messages":
            return self._message_event(data)
        if self.protocol == "responses":
            return self._response_event(data)
        return self._chunk(data)

    def reply(self) -> Reply:
        """The answer so far; call it after the last event."""
        reply = self._reply
        reply.tool_calls = [
            ToolCall(parts["name"], parts["arguments"], parts["id"]) for _, parts in sorted(self._calls.items())
        ]
        if self.error:
            self._deviation(f"the stream carries an error: {self.error}")
        if not self._ended:
            self._deviation("the stream ends without its last event")
        if reply.finish_reason is None:
            self._deviation("no finish reason")
        return reply

    def _deviation(self, text: str) -> None:
        if text not in self._reply.deviations:
            self._reply.deviations.append(text)

    def _chunk(self, data: dict[str, Any]) -> bool:
        reply = self._reply
        reply.id, reply.model = reply.id or _text(data.get("id")), reply.model or _text(data.get("model"))
        _read_usage(reply, data.get("usage"))
        grew = False
        for choice in _dicts(data.get("choices")):
            index = _whole(choice.get("index")) or 0
            reply.choices = max(reply.choices, index + 1)
            if index != 0:
                continue
            reply.finish_reason = _text(choice.get("finish_reason")) or reply.finish_reason
            delta = choice.get("delta")
            delta = delta if isinstance(delta, dict) else {}
            text = _text(choice.get("text")) or _text(delta.get("content"))
            reply.text += text
            calls = _dicts(delta.get("tool_calls"))
            for call in calls:
                self._call_part(_whole(call.get("index")) or 0, call.get("function"), _text(call.get("id")))
            grew = grew or bool(text or calls or delta.get("reasoning_content"))
        return grew

    def _call_part(self, index: int, function: Any, call_id: str) -> None:
        function = function if isinstance(function, dict) else {}
        parts = self._calls.setdefault(index, {"name": "", "arguments": "", "id": ""})
        parts["name"] += _text(function.get("name"))
        parts["arguments"] += _text(function.get("arguments"))
        parts["id"] = parts["id"] or call_id

    def _message_event(self, data: dict[str, Any]) -> bool:
        reply, kind = self._reply, data.get("type")
        delta = data.get("delta")
        delta = delta if isinstance(delta, dict) else {}
        index = _whole(data.get("index")) or 0
        if kind == "message_start" and isinstance(data.get("message"), dict):
            reply.id, reply.model = _text(data["message"].get("id")), _text(data["message"].get("model"))
            reply.choices = 1
            _read_usage(reply, data["message"].get("usage"))
        elif kind == "content_block_start" and isinstance(block := data.get("content_block"), dict):
            if block.get("type") == "tool_use":
                self._call_part(index, {"name": block.get("name")}, _text(block.get("id")))
        elif kind == "content_block_delta":
            reply.text += _text(delta.get("text"))
            if "partial_json" in delta:
                self._call_part(index, {"arguments": delta["partial_json"]}, "")
            return True
        elif kind == "message_delta":
            reply.finish_reason = _text(delta.get("stop_reason")) or reply.finish_reason
            _read_usage(reply, data.get("usage"))
        elif kind == "message_stop":
            self._ended = True
        return False

    def _response_event(self, data: dict[str, Any]) -> bool:
        kind = _text(data.get("type"))
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            whole = data.get("response")
            if isinstance(whole, dict):
                self._reply = read_body("responses", whole)
                self._calls = {
                    number: {"name": call.name, "arguments": call.arguments, "id": call.id}
                    for number, call in enumerate(self._reply.tool_calls)
                }
            self._ended = True
            return False
        return kind.endswith(".delta")


def _dicts(value: Any) -> list[dict[str, Any]]:
    """The objects in what should be a list of objects."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
