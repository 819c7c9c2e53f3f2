"""The catalogue is whole, and its entries are found by all their names."""

from __future__ import annotations

import re

import pytest

from harness.models import catalogue


def test_the_four_models_are_there() -> None:
    assert list(catalogue.load()) == ["smollm2-135m", "qwen2.5-0.5b", "qwen3-0.6b", "gemma-3-4b"]


def test_revisions_are_whole_commits_or_openly_absent() -> None:
    for entry in catalogue.load().values():
        for revision in (entry.revision, entry.gguf.revision if entry.gguf else None):
            assert revision is None or re.fullmatch(r"[0-9a-f]{40}", revision), entry.alias


def test_each_model_has_something_that_llama_cpp_reads() -> None:
    for entry in catalogue.load().values():
        source = entry.gguf or entry.package
        assert source is not None, entry.alias
        assert source.size > 1_000_000


@pytest.mark.parametrize(
    "name",
    ["qwen2.5-0.5b", "QWEN2.5-0.5B", "Qwen/Qwen2.5-0.5B-Instruct", "qwen/qwen2.5-0.5b-instruct-gguf"],
)
def test_an_entry_is_found_by_any_of_its_names_in_any_letter_case(name: str) -> None:
    entry = catalogue.find(name)
    assert entry is not None
    assert entry.alias == "qwen2.5-0.5b"


def test_what_is_no_name_is_not_found() -> None:
    assert catalogue.find("qwen2.5") is None


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("qwen2.5", "qwen2.5-0.5b"),
        ("qwen-2.5-0.5b", "qwen2.5-0.5b"),
        ("smollm", "smollm2-135m"),
        ("smolm2-135m", "smollm2-135m"),
        ("gemma3-4b", "gemma-3-4b"),
        ("Qwen/Qwen3-0.6b-Instruct", "qwen3-0.6b"),
    ],
)
def test_a_slip_of_the_hand_is_guessed(typed: str, meant: str) -> None:
    assert catalogue.near(typed)[0] == meant


def test_what_resembles_nothing_is_not_guessed() -> None:
    assert catalogue.near("zzzzzzzz") == []
