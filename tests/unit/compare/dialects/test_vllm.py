"""vLLM's answers, in the form of its OpenAI server."""

from __future__ import annotations

import math
from typing import Any

import pytest

from harness.compare.dialects import NotThere
from harness.compare.dialects.vllm import VLLM
from harness.compare.model import Sampling


def completion(**more: Any) -> dict[str, Any]:
    return {"choices": [{"text": " a", "finish_reason": "length", **more}], "usage": {"prompt_tokens": 2}}


def test_tokens_are_read_by_their_ids() -> None:
    found = VLLM("m").decoded(completion(logprobs={
        "tokens": ["token_id:260", "token_id:7"], "token_logprobs": [-1.5, -9999.0],
        # The sampled token stands beside the most likely one where it isn't that.
        "top_logprobs": [{"token_id:260": -1.5, "token_id:9": -0.5}, {"token_id:7": -0.1}],
    }))  # fmt: skip
    assert (found.ids, found.logprobs, found.top) == ([260, 7], [-1.5, -math.inf], [9, 7])
    with pytest.raises(NotThere, match="token ids"):
        VLLM("m").decoded(completion(logprobs={"tokens": [" a"], "token_logprobs": [-1.0], "top_logprobs": []}))


def test_a_prompts_log_probs_are_picked_by_token() -> None:
    entries = [
        None,
        {"6": {"logprob": -2.0, "rank": 1}},
        {"9": {"logprob": -0.5, "rank": 1}, "260": {"logprob": -1.5, "rank": 2}},
    ]
    one = VLLM("m")
    found = one.prefilled(completion(prompt_logprobs=entries), [5, 6], [260])
    assert (found.logprobs, found.top) == ([-1.5], [9])
    with pytest.raises(NotThere, match="the log-prob of token 261"):
        one.prefilled(completion(prompt_logprobs=entries), [5, 6], [261])
    with pytest.raises(NotThere, match="there are 3"):
        one.prefilled(completion(prompt_logprobs=entries), [5, 6, 7], [260])
    with pytest.raises(NotThere):
        one.prefilled(completion(), [5, 6], [260])


def test_nothing_is_left_to_the_models_generation_config() -> None:
    body = VLLM("m").decode([1], Sampling(max_tokens=1)).body
    assert (body["top_k"], body["min_p"], body["repetition_penalty"]) == (-1, 0.0, 1.0)
    # A seed ends vLLM's CPU build where it meets a prompt that is read in parts.
    assert "seed" not in body
    assert VLLM("m").decode([1], Sampling(max_tokens=1, seed=3), salt="s").body["seed"] == 3


def test_an_answer_to_images_names_its_tokens_and_its_prompts() -> None:
    one = VLLM("m")
    picture = {"type": "image", "image": "data:image/png;base64,AAAA"}
    asked = one.chat([{"role": "user", "content": [picture]}], [], Sampling(max_tokens=2))
    assert asked is not None
    assert asked.path == "/chat/completions"
    assert asked.body["messages"][0]["content"][0] == {"type": "image_url", "image_url": {"url": picture["image"]}}
    assert (asked.body["return_token_ids"], asked.body["logprobs"], "prompt" in asked.body) == (True, True, False)
    # As 0.32 answers: the sampled token comes first, the most likely one after it.
    entries = [{"token": "token_id:260", "logprob": -8.9, "top_logprobs": [
        {"token": "token_id:260", "logprob": -8.9}, {"token": "token_id:9", "logprob": -3.0}]}]  # fmt: skip
    choice = {"message": {"content": " a"}, "logprobs": {"content": entries}, "finish_reason": "length"}
    found = one.chatted({"choices": [choice], "prompt_token_ids": [1, 49153], "usage": {"prompt_tokens": 2}})
    assert (found.ids, found.logprobs, found.top, found.prompt_ids) == ([260], [-8.9], [9], [1, 49153])


def test_conversations_and_ids_go_through_its_tokenizer() -> None:
    one = VLLM("m")
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": {"a": "b"}}}
    asked = one.render([{"role": "assistant", "content": "", "tool_calls": [call]}], [])
    assert asked is not None
    assert asked.path == "/tokenize"
    assert asked.body["messages"][0]["tool_calls"][0]["function"]["arguments"] == '{"a": "b"}'
    assert one.rendered({"tokens": [1, 2], "count": 2}) == [1, 2]
    assert one.spelt({"prompt": " a"}) == " a"
