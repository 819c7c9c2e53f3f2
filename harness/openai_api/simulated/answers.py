"""Answers of a model that isn't one, in the four protocols: plain data, by nothing but the request."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.openai_api.reading import Protocol

WORDS = ("The", "answer", "is", "Paris", "or", "42", "and", "this", "server", "only", "pretends", "to", "think")


@dataclass(frozen=True)
class Answer:
    """One answer, before it has a form.

    Args:
        words: of the text; a word counts as a token.
        cut: it ends at the token limit.
    """

    id: str
    model: str
    words: tuple[str, ...]
    cut: bool
    prompt_tokens: int

    @property
    def text(self) -> str:
        """The whole text."""
        return " ".join(self.words)


def think(request: Mapping[str, Any], id_: str, *, tokens: int, empty: bool, cut: bool) -> Answer:
    """The answer to a request.

    Args:
        request: the body.
        id_: of the completion.
        tokens: how many it would say if nobody set a limit.
        empty: it says nothing.
        cut: it is cut at the limit in any case.
    """
    limit = next(
        (
            request[name]
            for name in ("max_completion_tokens", "max_tokens", "max_output_tokens")
            if isinstance(request.get(name), int)
        ),
        tokens,
    )
    count = 0 if empty else max(1, min(tokens, limit))
    words = tuple(WORDS[n % len(WORDS)] for n in range(count))
    asked = len(json.dumps(request.get("messages", request.get("input", request.get("prompt", ""))))) // 4
    return Answer(id_, str(request.get("model", "simulated")), words, cut or (0 < count < tokens), asked)


def body(protocol: Protocol, answer: Answer) -> dict[str, Any]:
    """The whole answer as one document."""
    if protocol == "messages":
        return {
            **_message_head(answer),
            "content": [{"type": "text", "text": answer.text}] if answer.words else [],
            "stop_reason": "max_tokens" if answer.cut else "end_turn",
            "usage": {"input_tokens": answer.prompt_tokens, "output_tokens": len(answer.words)},
        }
    if protocol == "responses":
        return _response(answer)
    choice: dict[str, Any] = {"index": 0, "finish_reason": _finish(answer), "logprobs": None}
    if protocol == "completions":
        choice["text"] = answer.text
    else:
        choice["message"] = {"role": "assistant", "content": answer.text}
    kind = "text_completion" if protocol == "completions" else "chat.completion"
    return {**_head(answer, kind), "choices": [choice], "usage": _usage(answer)}


def events(protocol: Protocol, answer: Answer, *, with_usage: bool) -> list[str]:
    """The answer as server-sent events, a word an event; the first and the last ones carry no word."""
    if protocol == "messages":
        return [f"event: {step['type']}\ndata: {json.dumps(step)}\n\n" for step in _message_steps(answer)]
    if protocol == "responses":
        return [f"event: {step['type']}\ndata: {json.dumps(step)}\n\n" for step in _response_steps(answer)]
    kind = "text_completion" if protocol == "completions" else "chat.completion.chunk"
    head = _head(answer, kind)

    def chunk(content: str | None, finish: str | None) -> dict[str, Any]:
        if protocol == "completions":
            return {**head, "choices": [{"index": 0, "text": content or "", "finish_reason": finish}]}
        delta = {} if content is None else {"content": content}
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    parts = [chunk(word if n == 0 else f" {word}", None) for n, word in enumerate(answer.words)]
    parts.append(chunk(None, _finish(answer)))
    if with_usage:
        parts.append({**head, "choices": [], "usage": _usage(answer)})
    return [*(f"data: {json.dumps(part)}\n\n" for part in parts), "data: [DONE]\n\n"]


def models(name: str) -> dict[str, Any]:
    """The list of models."""
    return {"object": "list", "data": [{"id": name, "object": "model", "owned_by": "drydock", "created": 0}]}


def _head(answer: Answer, kind: str) -> dict[str, Any]:
    return {"id": answer.id, "object": kind, "created": int(time.time()), "model": answer.model}


def _finish(answer: Answer) -> str:
    return "length" if answer.cut else "stop"


def _usage(answer: Answer) -> dict[str, int]:
    given = len(answer.words)
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": given,
        "total_tokens": answer.prompt_tokens + given,
    }


def _message_head(answer: Answer) -> dict[str, Any]:
    return {"id": answer.id, "type": "message", "role": "assistant", "model": answer.model, "stop_sequence": None}


def _message_steps(answer: Answer) -> list[dict[str, Any]]:
    start = {
        **_message_head(answer),
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": answer.prompt_tokens, "output_tokens": 0},
    }
    steps: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    if answer.words:
        steps.append({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
        steps += [
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": word if n == 0 else f" {word}"},
            }
            for n, word in enumerate(answer.words)
        ]
        steps.append({"type": "content_block_stop", "index": 0})
    delta = {"stop_reason": "max_tokens" if answer.cut else "end_turn", "stop_sequence": None}
    steps.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": len(answer.words)}})
    return [*steps, {"type": "message_stop"}]


def _response(answer: Answer) -> dict[str, Any]:
    part = {"type": "output_text", "text": answer.text, "annotations": []}
    message = {"type": "message", "id": f"msg_{answer.id}", "role": "assistant", "status": "completed"}
    return {
        **_head(answer, "response"),
        "created_at": int(time.time()),
        "status": "incomplete" if answer.cut else "completed",
        "output": [{**message, "content": [part] if answer.words else []}],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": answer.prompt_tokens,
            "output_tokens": len(answer.words),
            "total_tokens": answer.prompt_tokens + len(answer.words),
        },
    }


def _response_steps(answer: Answer) -> list[dict[str, Any]]:
    whole = _response(answer)
    item = whole["output"][0]
    place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    steps: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
    ]
    steps += [
        {"type": "response.output_text.delta", **place, "delta": word if n == 0 else f" {word}", "logprobs": []}
        for n, word in enumerate(answer.words)
    ]
    steps += [
        {"type": "response.output_text.done", **place, "text": answer.text, "logprobs": []},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": f"response.{whole['status']}", "response": whole},
    ]
    return [{**step, "sequence_number": n} for n, step in enumerate(steps)]
