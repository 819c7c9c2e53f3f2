"""Whether a chat template only appends is measured, so a template that doesn't has to be found."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from harness.checks.stage4 import job


def load(name: str) -> Any:
    """A module that runs in a framework's interpreter."""
    spec = importlib.util.spec_from_file_location(name, job.HERE / f"inside/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Tokenizer:
    """A letter is a token; the template is ``render``."""

    chat_template = "one"

    def __init__(self, render: Any) -> None:
        self.render = render

    def apply_chat_template(self, turns: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool) -> str:
        assert not tokenize
        text: str = self.render(turns)
        return text + ("<assistant>" if add_generation_prompt else "")

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return [ord(letter) for letter in text]

    def decode(self, ids: list[int]) -> str:
        return "".join(map(chr, ids))


def appends(turns: list[dict[str, str]]) -> str:
    return "".join(f"<{turn['role']}>{turn['content']}\n" for turn in turns)


def counts_turns(turns: list[dict[str, str]]) -> str:
    return f"[{len(turns)} turns]\n" + appends(turns)


def shortens_answers(turns: list[dict[str, str]]) -> str:
    """As templates do that leave the reasoning of earlier turns out."""
    last = turns[-1]
    return appends(
        [{**turn, "content": "…"} if turn["role"] == "assistant" != last["role"] else turn for turn in turns]
    )


@pytest.mark.parametrize(
    ("render", "prompt_kept", "answer_kept"),
    [(appends, True, True), (counts_turns, False, False), (shortens_answers, True, False)],
)
def test_a_template_is_measured_by_its_tokens(render: Any, prompt_kept: bool, answer_kept: bool) -> None:
    told = load("drydock_channel").template_of(Tokenizer(render))
    assert (told["there"], told["prompt_kept"], told["answer_kept"]) == (True, prompt_kept, answer_kept)
    assert "What is 2+2?" in told["first"]


def test_a_tokenizer_without_a_template_is_told() -> None:
    tokenizer = Tokenizer(appends)
    tokenizer.chat_template = ""
    channel = load("drydock_channel")
    assert channel.template_of(tokenizer) == {"there": False}
    assert channel.template_of(None) == {"there": False}
