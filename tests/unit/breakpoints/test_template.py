"""Conditions and texts of log points: all that an f-string can say."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from harness.breakpoints.inside.template import LONGEST, Condition, Template


def frame(**names: Any) -> FrameType:
    """A frame with these local variables."""
    reward, prompt, batch = (names.get(name) for name in ("reward", "prompt", "batch"))
    assert (reward, prompt, batch) is not None
    return sys._getframe()


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{reward:.3f}", "-1.235"),
        ("{reward:>10.2f}|", "     -1.23|"),
        ("{reward!r}", "-1.23456"),
        ("{prompt[:3]}", "two"),
        ("{prompt!r:>12}", " 'two words'"),
        ("{{literal}} {batch['a:b']}", "{literal} 7"),
        ("{'yes' if reward != 0 else 'no'}", "yes"),
        ("{sum(x * reward for x in [1, 2]):.1f}", "-3.7"),
        ("{len(prompt)} letters", "9 letters"),
        ("plain", "plain"),
        ("", ""),
        ("a \\n stays, \"quotes\" and 'quotes' too", "a \\n stays, \"quotes\" and 'quotes' too"),
        ('ends in a quote"', 'ends in a quote"'),
        ("{reward:{batch['width']}.1f}", "    -1.2"),
    ],
)
def test_a_text_is_an_f_string(text: str, filled: str) -> None:
    here = frame(reward=-1.23456, prompt="two words", batch={"a:b": 7, "width": 8})
    assert Template(text).fill(here)[0] == filled


def test_values_are_kept_beside_the_text() -> None:
    here = frame(reward=float("nan"), prompt="x" * (LONGEST + 5), batch=[1, 2])
    values = Template("{reward} {prompt} {batch} {len(batch)}").fill(here)[1]
    assert values["reward"] == "nan"
    assert values["prompt"] == "x" * LONGEST + "…"
    assert (values["batch"], values["len(batch)"]) == ("[1, 2]", 2)


class GpuTensor:
    """Any look at its numbers is a mistake."""

    shape, dtype, device = (2, 31), "torch.float32", "cuda:0"

    def _moved(self, *_: Any) -> str:
        raise AssertionError("the tensor was moved")

    __repr__ = __str__ = __len__ = __iter__ = tolist = cpu = item = _moved


def test_a_tensor_is_not_moved() -> None:
    text, values = Template("{batch}").fill(frame(batch=GpuTensor()))
    assert text == values["batch"] == "GpuTensor(2, 31) float32 cuda:0"


def test_an_expression_is_evaluated_once() -> None:
    calls: list[int] = []
    Template("{batch.append(1)}").fill(frame(batch=calls))
    assert calls == [1]


@pytest.mark.parametrize("text", ["{", "{reward", "{}", "{1 +}", "}"])
def test_what_is_no_f_string_is_said_before_anything_starts(text: str) -> None:
    with pytest.raises(SyntaxError):
        Template(text)


def test_a_condition() -> None:
    here = frame(reward=-2.0, prompt="p", batch=[1, 2])
    assert Condition("").holds(here)
    assert Condition("reward < -1").holds(here)
    assert not Condition("reward > 0 and nope").holds(here)
    assert Condition("any(x > 1 and reward for x in batch)").holds(here)
    with pytest.raises(NameError):
        Condition("nope").holds(here)
    with pytest.raises(SyntaxError):
        Condition("reward = 1")
