"""Servers that name tokens by their texts: completions' own form of log-probs, and the chat's."""

from __future__ import annotations

import pytest

from harness.compare.dialects import NotThere, counted
from harness.compare.dialects.openai import OpenAI


@pytest.mark.parametrize("logprobs", [
    {"tokens": [" a", "b"], "token_logprobs": [-1.0, -0.5], "top_logprobs": None, "text_offset": [0, 2]},
    {"content": [{"token": " a", "logprob": -1.0}, {"token": "b", "logprob": -0.5}]},
])  # fmt: skip
def test_tokens_are_kept_as_texts(logprobs: object) -> None:
    answer = {
        "choices": [{"text": " ab", "finish_reason": "stop", "logprobs": logprobs}],
        "usage": {"prompt_tokens": 4},
    }
    found = OpenAI("m").decoded(answer)
    assert (found.ids, found.pieces, found.logprobs) == ([], [" a", "b"], [-1.0, -0.5])
    assert (found.finish, found.prompt_tokens) == ("stop", 4)


def test_a_conversation_is_only_counted() -> None:
    one = OpenAI("m")
    asked = one.render([{"role": "user", "content": "hi"}], [])
    assert asked is not None
    assert (asked.path, asked.body["max_tokens"]) == ("/chat/completions", 1)
    with pytest.raises(NotThere) as raised:
        one.rendered({"choices": [], "usage": {"prompt_tokens": 32}})
    assert counted(raised.value) == 32


def test_the_rest_cannot_be_had_and_is_not_asked_for() -> None:
    one = OpenAI("m")
    assert one.spell([1]) is None
    assert not one.prefills
    with pytest.raises(NotThere):
        one.prefill([1], [2])
