"""What holds for every engine that can be compared; each has a test of its own beside this one."""

from __future__ import annotations

import inspect
import math
from pathlib import Path

import pytest

from harness.compare.dialects import DIALECTS, NotThere, Request
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


def test_what_stands_for_minus_infinity_becomes_it() -> None:
    assert number(-9999.0) == -math.inf
    assert math.isnan(number("-1"))
    assert number(-1) == -1.0
