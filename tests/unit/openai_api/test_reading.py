from __future__ import annotations

import json
from typing import Any

import pytest

from harness.openai_api.reading import Protocol, StreamReader, ToolCall, protocol_of, read_body
from harness.openai_api.sse import Event


@pytest.mark.parametrize(
    ("path", "protocol"),
    [
        ("/v1/chat/completions", "chat"),
        ("/chat/completions", "chat"),
        ("/v1/completions?x=1", "completions"),
        ("/v1/messages", "messages"),
        ("/responses/", "responses"),
        ("/v1/models", "other"),
        ("/health", "other"),
    ],
)
def test_a_route_is_known_by_its_end(path: str, protocol: str) -> None:
    assert protocol_of(path) == protocol


def test_a_chat_is_read() -> None:
    reply = read_body(
        "chat",
        {
            "id": "c1",
            "model": "m",
            "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 1},
        },
    )
    assert (reply.id, reply.text, reply.finish_reason) == ("c1", "hi", "stop")
    assert (reply.prompt_tokens, reply.completion_tokens) == (3, 1)
    assert reply.deviations == []


@pytest.mark.parametrize(
    ("body", "deviation"),
    [
        ([], "the body is no JSON object"),
        ({"id": "x"}, "no choices"),
        ({"id": "x", "choices": [{}]}, "choices[0] has no message"),
        ({"choices": [{"message": {"content": "x"}}]}, "no id"),
        ({"choices": [{"message": {"content": "x"}}]}, "no usage: the number of tokens is unknown"),
        ({"choices": [{"message": {"content": "x"}}]}, "no finish reason"),
        (
            {"choices": [{"message": {"tool_calls": [{"function": {"name": "f", "arguments": {}}}]}}]},
            "a tool call's arguments are no JSON text",
        ),
    ],
)
def test_what_leaves_the_protocol_is_named(body: Any, deviation: str) -> None:
    assert deviation in read_body("chat", body).deviations


@pytest.mark.parametrize("rubbish", [None, 3, "x", {"choices": "x"}, {"choices": [3]}, {"usage": 3}, {"content": {}}])
@pytest.mark.parametrize("protocol", ["chat", "completions", "messages", "responses"])
def test_rubbish_is_read_without_failing(protocol: Protocol, rubbish: Any) -> None:
    assert read_body(protocol, rubbish).deviations


def test_anthropics_cached_tokens_count_as_prompt() -> None:
    body = {
        "id": "m",
        "content": [{"type": "text", "text": "a"}, {"type": "tool_use", "id": "t", "name": "f", "input": {"x": 1}}],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 9, "cache_read_input_tokens": 24, "output_tokens": 7},
    }
    reply = read_body("messages", body)
    assert (reply.prompt_tokens, reply.completion_tokens) == (33, 7)
    assert reply.tool_calls == [ToolCall("f", '{"x": 1}', "t")]


def test_arguments_that_are_no_object_are_not_parsed() -> None:
    assert ToolCall("f", '"Paris"').parsed is None
    assert ToolCall("f", "{").parsed is None
    assert ToolCall("f", '{"a": 1}').parsed == {"a": 1}


def stream(protocol: Protocol, *chunks: Any) -> StreamReader:
    reader = StreamReader(protocol)
    for chunk in chunks:
        reader.feed(Event("", chunk if isinstance(chunk, str) else json.dumps(chunk)))
    return reader


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"id": "c1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def test_a_streamed_chat_is_put_together() -> None:
    part = {"index": 0, "id": "t", "function": {"name": "f", "arguments": '{"a"'}}
    rest = {"index": 0, "function": {"arguments": ": 1}"}}
    reply = stream(
        "chat",
        chunk({"content": "a"}),
        chunk({"content": "b"}),
        chunk({"tool_calls": [part]}),
        chunk({"tool_calls": [rest]}),
        chunk({}, "tool_calls"),
        {"id": "c1", "choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 5}},
        "[DONE]",
    ).reply()
    assert reply.text == "ab"
    assert reply.tool_calls == [ToolCall("f", '{"a": 1}', "t")]
    assert (reply.finish_reason, reply.completion_tokens) == ("tool_calls", 5)
    assert reply.deviations == []


def test_only_output_of_the_model_counts_as_first_token() -> None:
    reader = StreamReader("chat")
    assert not reader.feed(Event("", json.dumps(chunk({"role": "assistant", "content": ""}))))
    assert reader.feed(Event("", json.dumps(chunk({"content": "x"}))))


def test_a_stream_that_is_cut_says_so() -> None:
    reply = stream("chat", chunk({"content": "a"})).reply()
    assert "the stream ends without its last event" in reply.deviations
    assert "no finish reason" in reply.deviations


def test_an_error_within_a_stream_is_seen() -> None:
    reader = stream("chat", {"error": {"message": "out of memory"}})
    reader.reply()
    assert "out of memory" in reader.error


def test_a_streamed_message_of_anthropics_is_put_together() -> None:
    reply = stream(
        "messages",
        {"type": "message_start", "message": {"id": "m1", "model": "m", "usage": {"input_tokens": 4}}},
        {"type": "content_block_delta", "index": 0, "delta": {"text": "hel"}},
        {"type": "content_block_delta", "index": 0, "delta": {"text": "lo"}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t", "name": "f"}},
        {"type": "content_block_delta", "index": 1, "delta": {"partial_json": "{}"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 6}},
        {"type": "message_stop"},
    ).reply()
    assert (reply.id, reply.text, reply.finish_reason) == ("m1", "hello", "end_turn")
    assert (reply.prompt_tokens, reply.completion_tokens) == (4, 6)
    assert reply.tool_calls == [ToolCall("f", "{}", "t")]
    assert reply.deviations == []


def test_a_streamed_response_is_taken_from_its_last_event() -> None:
    whole = {
        "id": "r1",
        "status": "completed",
        "output": [{"content": [{"text": "hi"}]}],
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }
    reply = stream("responses", {"type": "response.completed", "response": whole}).reply()
    assert (reply.id, reply.text, reply.completion_tokens, reply.deviations) == ("r1", "hi", 2, [])


def test_only_the_first_choice_is_read_and_all_are_counted() -> None:
    second = {"id": "c", "choices": [{"index": 1, "delta": {"content": "no"}}]}
    reply = stream("chat", chunk({"content": "yes"}), second).reply()
    assert (reply.text, reply.choices) == ("yes", 2)
