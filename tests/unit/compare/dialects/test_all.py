"""What holds for every engine that can be compared; each has a test of its own beside this one."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.compare.dialects import DIALECTS, Decoded, NotThere, Request, read
from harness.compare.dialects.answers import number
from harness.compare.model import Sampling

MADE = [make("a-model") for make in DIALECTS]


def test_each_has_a_file_a_test_and_a_name_of_its_own() -> None:
    files = [Path(inspect.getfile(type(one))) for one in MADE]
    assert len({*files}) == len({one.name for one in MADE}) == len(MADE)
    for file in files:
        assert (Path(__file__).parent / f"test_{file.name}").is_file(), file.stem


@pytest.mark.parametrize("dialect", MADE, ids=lambda one: one.name)
def test_it_asks_for_what_it_was_told_to(dialect: object) -> None:
    one = next(made for made in MADE if made is dialect)
    asked = one.decode([5, 6, 7], Sampling(max_tokens=9, temperature=0.5, top_p=0.25))
    values = {**asked.body, **asked.body.get("sampling_params", {})}
    assert [5, 6, 7] in asked.body.values()
    assert 9 in values.values()
    assert (values["temperature"], values["top_p"]) == (0.5, 0.25)
    assert isinstance(one.render([{"role": "user", "content": "hello"}], []), Request)


@pytest.mark.parametrize("dialect", MADE, ids=lambda one: one.name)
def test_images_are_asked_about_or_it_says_that_it_cannot(dialect: object) -> None:
    one = next(made for made in MADE if made is dialect)
    if one.chat([{"role": "user", "content": "hello"}], [], Sampling()) is None:
        with pytest.raises(NotThere, match="token ids of a chat"):
            one.chatted({})


@pytest.mark.parametrize("dialect", MADE, ids=lambda one: one.name)
@pytest.mark.parametrize("answer", [None, [], {}, {"choices": []}, {"choices": [{"text": "said"}]}, {"text": "said"}])
def test_an_answer_without_log_probs_is_not_taken_for_one(dialect: object, answer: object) -> None:
    one = next(made for made in MADE if made is dialect)
    with pytest.raises(NotThere):
        one.decoded(answer)


_ANYTHING: tuple[Any, ...] = (
    None, True, -1, 2.5, 1e400, "text", [], [None], [[]], [5], ["text"], {}, [{}], {"text": 5}, [{"text": {}}],
)  # fmt: skip


def _broken(value: Any) -> Iterator[Any]:
    """The same document with one of its parts, each in turn, as anything else."""
    yield from _ANYTHING
    if isinstance(value, dict):
        for key in value:
            yield {name: other for name, other in value.items() if name != key}
            yield from ({**value, key: part} for part in _broken(value[key]))
    if isinstance(value, list):
        for place in range(min(2, len(value))):
            yield from ([*value[:place], part, *value[place + 1 :]] for part in _broken(value[place]))


@pytest.mark.parametrize("dialect", MADE, ids=lambda one: one.name)
def test_an_answer_of_any_other_form_is_said_to_lack_something(dialect: object) -> None:
    """What a proxy, a web page or another version answers; and what is found has the types that it should have."""
    one = next(made for made in MADE if made is dialect)
    token = {"id": 7, "token": "a", "bytes": [97], "logprob": -0.5, "decoded_token": "a", "rank": 1,
             "top_logprobs": [{"id": 7, "token": "a", "logprob": -0.5}]}  # fmt: skip
    logprobs = {"content": [token], "tokens": ["token_id:7"], "token_logprobs": [-0.5],
                "top_logprobs": [{"token_id:7": -0.5}]}  # fmt: skip
    meta = {"output_token_logprobs": [[-0.5, 7, "a"]], "output_top_logprobs": [[[-0.5, 7, "a"]]],
            "input_token_logprobs": [[None, 5, "b"], [-0.5, 7, "a"]], "input_top_logprobs": [None, [[-0.5, 7, "a"]]],
            "finish_reason": {"type": "length"}, "prompt_tokens": 1, "cached_tokens": 0}  # fmt: skip
    usage = {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}}
    choice = {"text": "a", "logprobs": logprobs, "prompt_logprobs": [None, {"7": token}], "token_ids": [7],
              "prompt_token_ids": [5], "finish_reason": "length", "message": {"content": "a"}}  # fmt: skip
    whole = {"choices": [choice], "usage": usage, "meta_info": meta, "text": "a", "output_ids": [7], "tokens": [7],
             "prompt": "a", "content": "a", "token_strs": ["a"], "prompt_token_ids": [5]}  # fmt: skip
    taken = 0
    for answer in _broken(whole):
        for how, asked in ((one.decoded, ()), (one.chatted, ()), (one.prefilled, ([5], [7])), (one.rendered, ()),
                           (one.spelt, ())):  # fmt: skip
            try:
                found: Any = read(how, answer, *asked)
            except NotThere:
                continue
            taken += 1
            if isinstance(found, Decoded):
                assert all(isinstance(value, float) for value in found.logprobs)
                assert all(type(token) is int for token in (*found.ids, *found.top))
                json.dumps([found.text, found.finish, found.pieces, found.cached, found.prompt_tokens])
    assert taken > 100


def test_what_stands_for_minus_infinity_becomes_it() -> None:
    assert number(-9999.0) == -math.inf
    assert math.isnan(number("-1"))
    assert number(-1) == -1.0
