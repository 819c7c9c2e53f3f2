"""Exceptions that many people meet are told with what mends them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.checks import known_errors

FILE: Any = SimpleNamespace(given="agents/right/mine.py:Mine", by_module=False)
MODULE: Any = SimpleNamespace(given="agents.right.mine:Mine", by_module=True)


def mend(kind: str, message: str, agent: Any = FILE) -> str:
    return known_errors.mend({"type": kind, "message": message}, agent)


@pytest.mark.parametrize("inside", [True, False])
def test_a_missing_package_is_told_where_it_goes(inside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_errors, "in_container", lambda: inside)
    told = mend("ModuleNotFoundError", "No module named 'numpy.linalg'")
    assert "make up" in told
    assert "WORKSPACE/requirements.txt" in told
    # Without a stack the check runs elsewhere, and what is in that file was installed into no Python.
    assert ("no stack is up" in told) is not inside
    assert ("that has numpy" in told) is inside


def test_a_relative_import_needs_the_package() -> None:
    message = "attempted relative import with no known parent package"
    assert mend("ImportError", message).startswith("AGENT=agents.right.mine:Mine ")
    assert mend("ImportError", message, MODULE) == ""


@pytest.mark.parametrize(
    ("kind", "message", "words"),
    [
        ("AttributeError", "'coroutine' object has no attribute 'choices'", "await the call"),
        ("TypeError", "'coroutine' object is not subscriptable", "await the call"),
        ("openai.BadRequestError", "the request exceeds the available context size (2048 tokens)", "CONTEXT="),
        ("openai.BadRequestError", "This model's maximum context length is 2048 tokens", "CONTEXT="),
        ("openai.NotFoundError", "Error code: 404 - The model 'gpt-4o' is not served here. Served: x", "OPENAI_MODEL"),
        ("openai.NotFoundError", "The model `gpt-4o` does not exist.", "OPENAI_MODEL"),
    ],
)  # fmt: skip
def test_what_is_known_has_its_advice(kind: str, message: str, words: str) -> None:
    assert words in mend(kind, message)


def test_a_key_that_the_sample_lacks_is_told_with_those_that_it_has() -> None:
    raised = {
        "type": "KeyError", "message": "'prompt'", "sample_keys": ["messages", "answer"],
        "frames": [{"file": "mine.py", "line": 3, "function": "run", "source": 'text = data["prompt"]'}],
    }  # fmt: skip
    assert "the sample has: messages, answer " in known_errors.mend(raised, FILE)
    raised["frames"] = [{"file": "lib.py", "line": 3, "function": "get", "source": "return table[name]"}]
    assert known_errors.mend(raised, FILE) == ""


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("ImportError", "No module named 'numpy'"),
        ("ModuleNotFoundError", "something else"),
        ("AttributeError", "'NoneType' object has no attribute 'choices'"),
        ("KeyError", "'prompt'"),
        ("FileNotFoundError", "model file not found"),
        ("ValueError", ""),
    ],
)
def test_others_have_none(kind: str, message: str) -> None:
    assert mend(kind, message) == ""
