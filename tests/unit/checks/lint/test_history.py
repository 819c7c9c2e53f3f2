"""Which calls go on where an earlier one ended."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checks.lint import history
from harness.openai_api.calls import Call
from harness.openai_api.reading import Reply

QUESTION = {"role": "user", "content": "What is 2 + 2?"}
ANSWER = {"role": "assistant", "content": "Four, I think."}
AGAIN = {"role": "user", "content": "Are you sure?"}
SYSTEM = {"role": "system", "content": "You are a patient teacher of arithmetic. Today is Monday."}
CRITIC = {"role": "system", "content": "Judge what the others say."}


def call(number: int, messages: list[Any], *, said: str = "", tokens: tuple[int, int] = (10, 4), **more: Any) -> Call:
    reply = Reply(id=f"c{number}", text=said, prompt_tokens=tokens[0], completion_tokens=tokens[1])
    request = {"messages": messages, **more}
    return Call(
        number, 0, "POST", "/v1/chat/completions", "chat", {}, len(messages), 200, "", 0.0, 0.1, False, None, reply,
        request=request,
    )  # fmt: skip


def codes(*calls: Call) -> list[tuple[str, str]]:
    return [(one.rule.code, one.detail) for one in history.judge(calls)]


def test_a_history_that_is_only_added_to_is_right() -> None:
    first = call(1, [SYSTEM, QUESTION], said="Four, I think.", tokens=(20, 4))
    assert codes(first, call(2, [SYSTEM, QUESTION, ANSWER, AGAIN], tokens=(31, 4))) == []


RIGHT = {
    "independent questions": [[QUESTION], [AGAIN]],
    "the same question again": [[QUESTION], [QUESTION]],
    "another agent with a prompt of its own": [[SYSTEM, QUESTION], [CRITIC, QUESTION, ANSWER, AGAIN]],
    "a judge that reads the transcript": [[QUESTION], [{"role": "user", "content": "Judge: Four, I think."}]],
    "an example in each prompt": [[QUESTION, ANSWER, AGAIN], [QUESTION, ANSWER, {"role": "user", "content": "And 3?"}]],
}


@pytest.mark.parametrize("messages", RIGHT.values(), ids=RIGHT)
def test_what_is_no_rewriting_is_not_taken_for_one(messages: list[list[Any]]) -> None:
    assert codes(call(1, messages[0], said="Four, I think."), call(2, messages[1])) == []


WRONG = {
    "changes the system prompt (message 1)": [
        {"role": "system", "content": SYSTEM["content"].replace("Monday", "Tuesday")},
        QUESTION,
        ANSWER,
        AGAIN,
    ],
    "changes message 2 (user)": [SYSTEM, {"role": "user", "content": "2 + 2?"}, ANSWER, AGAIN],
}


@pytest.mark.parametrize(("words", "second"), WRONG.items())
def test_a_rewritten_history_is_told(words: str, second: list[Any]) -> None:
    first = call(1, [SYSTEM, QUESTION], said="Four, I think.")
    ((code, detail),) = codes(first, call(2, second))
    assert code == "history-rewritten"
    assert words in detail


def test_a_window_that_forgets_the_oldest_turn_is_told() -> None:
    ((code, detail),) = codes(call(1, [QUESTION], said="Four, I think."), call(2, [ANSWER, AGAIN]))
    assert code == "history-rewritten"
    assert "leaves out message 1 (user)" in detail


def test_a_template_that_drops_what_was_said_is_told_by_its_tokens() -> None:
    thought = "<think>long</think>Four."
    first = call(1, [QUESTION], said=thought, tokens=(20, 300))
    second = [QUESTION, {"role": "assistant", "content": thought}, AGAIN]
    assert [code for code, _ in codes(first, call(2, second, tokens=(40, 4)))] == ["history-template"]
    assert codes(first, call(2, second, tokens=(330, 4))) == []
    assert codes(first, call(2, second, tokens=(40, 4), tools=[{"type": "function"}])) == []  # another prompt anyway
