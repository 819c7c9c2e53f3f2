"""SGLang's answers, in the form of its ``/generate``: (log-prob, token id, text) each."""

from __future__ import annotations

import pytest

from harness.compare.dialects import NotThere, counted
from harness.compare.dialects.sglang import SGLang


def test_tokens_are_read_by_their_ids() -> None:
    about = {
        "output_token_logprobs": [[-1.5, 260, None], [-0.25, 7, None]],
        "output_top_logprobs": [[[-0.5, 9, None]], [[-0.25, 7, None]]],
        "finish_reason": {"type": "length", "length": 2}, "prompt_tokens": 3, "cached_tokens": 1,
    }  # fmt: skip
    found = SGLang("m").decoded({"text": " a", "meta_info": about})
    assert (found.ids, found.logprobs, found.top) == ([260, 7], [-1.5, -0.25], [9, 7])
    assert (found.finish, found.prompt_tokens, found.cached) == ("length", 3, 1)


def test_a_prompts_log_probs_begin_one_token_early() -> None:
    one = SGLang("m")
    asked = one.prefill([5, 6, 7], [260, 8])
    assert (asked.body["input_ids"], asked.body["logprob_start_len"]) == ([5, 6, 7, 260, 8], 2)
    about = {"input_token_logprobs": [[None, 7, None], [-1.5, 260, None], [-0.5, 8, None]],
             "input_top_logprobs": [None, [[-0.5, 9, None]], [[-0.5, 8, None]]]}  # fmt: skip
    found = one.prefilled({"meta_info": about}, [5, 6, 7], [260, 8])
    assert (found.logprobs, found.top) == ([-1.5, -0.5], [9, 8])
    with pytest.raises(NotThere):
        one.prefilled({"meta_info": about}, [5, 6, 7], [260, 9])


def test_a_conversation_is_only_counted() -> None:
    one = SGLang("m")
    with pytest.raises(NotThere) as raised:
        one.rendered({"choices": [], "usage": {"prompt_tokens": 32}})
    assert counted(raised.value) == 32
    assert one.spelt({"text": " a"}) == " a"
