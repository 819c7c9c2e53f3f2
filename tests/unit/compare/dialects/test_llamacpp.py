"""llama.cpp's answers, as xllamacpp 2026.10 gave them."""

from __future__ import annotations

import pytest

from harness.compare.dialects import NotThere, Request
from harness.compare.dialects.llamacpp import LlamaCpp

_COMPLETION = {
    "choices": [{
        "text": " political", "index": 0, "finish_reason": "length",
        "logprobs": {"content": [{
            "id": 2356, "token": " political", "bytes": [32, 112], "logprob": -7.66985,
            "top_logprobs": [{"id": 29, "token": "-", "bytes": [45], "logprob": -1.14493}],
        }]},
    }],
    "usage": {"completion_tokens": 1, "prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}},
}  # fmt: skip


def test_tokens_are_read_by_their_ids() -> None:
    found = LlamaCpp("m").decoded(_COMPLETION)
    assert (found.ids, found.logprobs, found.top) == ([2356], [-7.66985], [29])
    assert (found.finish, found.prompt_tokens, found.cached) == ("length", 3, 2)


def test_a_conversation_becomes_ids_in_two_steps() -> None:
    one = LlamaCpp("m")
    request = one.render([{"role": "user", "content": "hi"}], [{"type": "function"}])
    assert request is not None
    assert (request.path, request.at_root, request.body["tools"]) == ("/apply-template", True, [{"type": "function"}])
    after = one.rendered({"prompt": "<|im_start|>user\nhi"})
    assert isinstance(after, Request)
    assert (after.path, after.body["content"], after.body["parse_special"]) == (
        "/tokenize",
        "<|im_start|>user\nhi",
        True,
    )
    assert one.rendered({"tokens": [1, 4093]}) == [1, 4093]
    with pytest.raises(NotThere):
        one.rendered({"error": {}})


def test_a_prompts_log_probs_cannot_be_had() -> None:
    one = LlamaCpp("m")
    assert not one.prefills
    with pytest.raises(NotThere, match="log-probs of a prompt"):
        one.prefill([1], [2])


def test_ids_are_texts_at_detokenize() -> None:
    one = LlamaCpp("m")
    asked = one.spell([2356])
    assert asked is not None
    assert asked.path == "/detokenize"
    assert one.spelt({"content": " political"}) == " political"


def test_a_server_that_names_no_ids_is_another() -> None:
    for found in ({"content": [{"token": " a", "logprob": -1.0}]}, {"tokens": [" a"], "token_logprobs": [-1.0]}):
        with pytest.raises(NotThere):
            LlamaCpp("m").decoded({"choices": [{"text": " a", "logprobs": found}]})
