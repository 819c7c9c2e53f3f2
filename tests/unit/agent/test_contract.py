from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.agent.contract import Unfit, construct, hold_to_contract, load


class Good:
    async def run(self, data: Any, **extra_kwargs: Any) -> float:
        return 1.0


class Named:
    async def run(self, data: Any, base_url: str, api_key: str, http_client: Any) -> float:
        return 1.0


class NotAsync:
    def run(self, data: Any, **extra_kwargs: Any) -> float:
        return 1.0


class NoKwargs:
    async def run(self, data: Any) -> float:
        return 1.0


class NoData:
    async def run(self, **extra_kwargs: Any) -> float:
        return 1.0


class NoRun: ...


class Attribute:
    run = 3


class Needs:
    def __init__(self, turns: int) -> None:
        self.turns = turns


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize("kind", [Good, Named])
def test_an_agent_that_takes_what_is_passed_is_fit(kind: type) -> None:
    hold_to_contract(construct(kind, {}))


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        (NotAsync, "run-not-async"),
        (NoKwargs, "run-signature"),
        (NoData, "run-signature"),
        (NoRun, "no-run"),
        (Attribute, "no-run"),
    ],
)
def test_an_agent_that_is_unfit_says_why_and_where(kind: type, fault: str) -> None:
    with pytest.raises(Unfit) as caught:
        hold_to_contract(kind())
    assert caught.value.kind == fault
    assert caught.value.line is not None
    assert caught.value.consequence
    assert "async def run(self, data, **extra_kwargs)" in caught.value.mend


def test_missing_arguments_are_named_and_given_ones_arrive() -> None:
    with pytest.raises(Unfit, match="turns") as caught:
        construct(Needs, {})
    assert caught.value.kind == "not-constructible"
    assert construct(Needs, {"turns": 3}).turns == 3


def test_what_init_raises_passes_through() -> None:
    class Raises:
        def __init__(self) -> None:
            raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        construct(Raises, {})


def test_a_class_is_loaded_by_name(path: Path) -> None:
    (path / "one_agent.py").write_text("class A:\n    class B: ...\nc = A()\n")
    assert load("one_agent", "A.B", None).__qualname__ == "A.B"


def test_a_class_that_is_missing_at_run_time_names_those_with_a_run(path: Path) -> None:
    (path / "two_agent.py").write_text("class A:\n    def run(self): ...\nclass B: ...\nfor C in (): ...\n")
    with pytest.raises(Unfit) as caught:
        load("two_agent", "C", None)
    assert caught.value.kind == "no-class"
    assert caught.value.consequence == "With a run method there: A."


def test_an_object_is_no_class(path: Path) -> None:
    (path / "three_agent.py").write_text("class A: ...\na = A()\n")
    with pytest.raises(Unfit) as caught:
        load("three_agent", "a", None)
    assert caught.value.kind == "not-a-class"


def test_a_file_that_shares_its_name_with_a_module_of_python_is_loaded_all_the_same(path: Path) -> None:
    (path / "json.py").write_text("class Mine: ...\n")
    assert load("json", "Mine", str(path / "json.py")).__name__ == "Mine"
    import json

    assert json.dumps({}) == "{}"
