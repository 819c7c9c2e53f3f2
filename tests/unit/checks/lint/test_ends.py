"""A `run` that comes to its end without a return, on some way; and methods of bases and subclasses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.checks.lint.written import around, said


@pytest.mark.parametrize(
    ("run", "status"),
    [
        ("if data:\n    return 1.0", "fail"),
        ("if data:\n    return 1.0\nprint('no')", "fail"),
        ("try:\n    return 1.0\nexcept ValueError:\n    print('no')", "fail"),
        ("with open('x'):\n    if data:\n        return 1.0", "fail"),
        ("while True:\n    if data:\n        break\n    return 1.0", "fail"),
        ("for _ in range(3):\n    try:\n        return 1.0\n    except ValueError:\n        pass", "warn"),
        ("if data == 1:\n    return 1.0\nelif data == 2:\n    return 0.0", "warn"),
        ("if data:\n    return 1.0\nif not data:\n    return 0.0", "warn"),
        ("match data:\n    case 1:\n        return 1.0", "warn"),
        ("return await self.half(data)", "fail"),
        ("return self.nothing(data)", "fail"),
    ],
)
def test_a_way_without_a_return(tmp_path: Path, run: str, status: str) -> None:
    methods = "async def half(self, one):\n    if one:\n        return 1.0\n\ndef nothing(self, one):\n    float(one)"
    found = around(tmp_path, run, methods=methods)
    assert {code: one.status for code, one in found.items()} == {"reward-none": status}


@pytest.mark.parametrize(
    "run",
    [
        "if data:\n    return 1.0\nelse:\n    return 0.0",
        "if data:\n    return 1.0\nraise ValueError",
        "while True:\n    if data:\n        return 1.0",
        "while True:\n    for one in data:\n        break\n    if data:\n        return 1.0",
        "try:\n    return 1.0\nexcept ValueError:\n    return 0.0",
        "try:\n    pass\nfinally:\n    return 1.0",
        "async with client:  # drydock: ignore\n    return 1.0",
        "match data:\n    case 1:\n        return 1.0\n    case _:\n        return 0.0",
        "for one in data:\n    if one:\n        return 1.0\nelse:\n    return 0.0",
        "if data:\n    return 1.0\nself.fail()",
        "if data:\n    return 1.0\nos._exit(1)",
        "if data:\n    return 1.0\nassert False",
        "return self.stub()",
    ],
)
def test_every_way_returns_or_leaves(tmp_path: Path, run: str) -> None:
    methods = 'def fail(self):\n    raise ValueError("no")\n\ndef stub(self):\n    raise NotImplementedError'
    assert around(tmp_path, run, methods=methods) == {}


BASE = """
from abc import ABC, abstractmethod


class Base(ABC):
    async def run(self, data, **extra_kwargs):
        return await self.talk(data)

    @abstractmethod
    async def talk(self, data): ...

    def score(self, data):
        return 1.0


class Generic(Base):
    pass
"""


@pytest.mark.parametrize("bases", ["from base import Base", "import base", "from base import Generic as Base"])
@pytest.mark.parametrize(
    ("talk", "codes"),
    [
        ("return data == 1", ["reward-bool"]),
        ("return 1.0, {}", ["reward-list"]),
        ("return round(data)", ["reward-int"]),
        ("return super().score(data)", []),
        ("return self.score(data)", []),
        ("import time; time.sleep(1); return 1.0", ["blocking-call"]),
    ],
)
def test_the_subclasss_methods_are_what_a_base_calls(tmp_path: Path, bases: str, talk: str, codes: list[str]) -> None:
    (tmp_path / "base.py").write_text(BASE)
    base = "base.Base" if bases == "import base" else "Base"
    source = f"{bases}\n\n\nclass Agent({base}):\n    async def talk(self, data):\n        {talk}\n"
    assert list(said(tmp_path, source)) == codes


def test_what_super_calls_is_the_bases(tmp_path: Path) -> None:
    source = """
    class Base:
        async def run(self, data, **extra_kwargs):
            return self.score(data)

        def score(self, data):
            return len(data)


    class Agent(Base):
        def score(self, data):
            return super().score(data)
    """
    found = said(tmp_path, source)
    assert [one.place.source for one in found.values() if one.place] == ["return len(data)"]
    assert list(found) == ["reward-int"]


def test_another_class_is_its_own(tmp_path: Path) -> None:
    source = """
    class Other:
        def score(self, data):
            return self.inner()

        def inner(self):
            return 1.0


    class Agent:
        async def run(self, data, **extra_kwargs):
            other = Other()
            return other.score(data)

        def inner(self):
            return 1
    """
    assert said(tmp_path, source) == {}


def test_a_tuple_is_called_one(tmp_path: Path) -> None:
    assert "a tuple" in around(tmp_path, "return 1.0, {}")["reward-list"].detail
