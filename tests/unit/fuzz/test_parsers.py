"""No parser answers a broken input with an error that isn't ours, nor takes long or much memory over it."""

# examples as they are

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.unit.fuzz.all import PARSERS
from tests.unit.fuzz.mutate import broken
from tests.unit.fuzz.parser import Parser, held

# The same in every run, so that a change is what makes it red; `make fuzz` looks further.
FAST = settings(
    max_examples=20, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
each_parser = pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)


@each_parser
def test_what_is_right_is_read(parser: Parser, tmp_path: Path) -> None:
    for number, example in enumerate(parser.examples):
        folder = tmp_path / str(number)
        folder.mkdir()
        parser.read(example, folder)


@each_parser
def test_what_is_broken_is_refused_or_read(parser: Parser, tmp_path: Path) -> None:
    @FAST
    @given(st.randoms(use_true_random=False))
    def any_break(chance: Random) -> None:
        held(parser, broken(chance, chance.choice(parser.examples)), tmp_path)

    any_break()


def deep(example: bytes) -> list[bytes]:
    """What is nested beyond all measure: on its own, and in each place of an example's first level."""
    nests = [b"[" * 20_000, b'{"a":' * 20_000 + b"1" + b"}" * 20_000, b"[" * 5_000 + b"]" * 5_000]
    try:
        value: Any = json.loads(example)
    except ValueError:
        return nests
    if not isinstance(value, dict):
        return nests
    text = {key: json.dumps(inner) for key, inner in value.items()}
    for key in value:
        inside = {**text, key: "[" * 5_000 + "]" * 5_000}
        nests.append(("{" + ", ".join(f"{json.dumps(name)}: {inner}" for name, inner in inside.items()) + "}").encode())
    return nests


@each_parser
def test_what_is_nested_deeply_is_refused_or_read(parser: Parser, tmp_path: Path) -> None:
    for data in deep(parser.examples[0]):
        held(parser, data, tmp_path)


@each_parser
def test_what_is_empty_or_noise_is_refused_or_read(parser: Parser, tmp_path: Path) -> None:
    for data in (
        b"",
        b"\n",
        b"\0" * 64,
        bytes(range(256)),
        b"9" * 6000,
        "²٣𝟘\u2028".encode(),
        b"null",
        b"[]",
        b"{}",
        b'""',
    ):
        held(parser, data, tmp_path)
