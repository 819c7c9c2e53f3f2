"""A seed decides all steps; what is planned covers every pair of verb and fault; the page says what was counted."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.chaos import page, traces
from tests.chaos.faults import FAULTS
from tests.chaos.planning import VERBS, plan, wanted


def test_the_same_seed_gives_the_same_steps() -> None:
    assert plan(7, FAULTS, 1, 40) == plan(7, FAULTS, 1, 40)
    assert plan(7, FAULTS, 1, 40) != plan(8, FAULTS, 1, 40)


def test_one_step_of_a_seed_can_be_had_alone() -> None:
    assert plan(7, FAULTS, 12, 12) == plan(7, FAULTS, 1, 40)[11:12]


def test_every_pair_comes_once_before_any_comes_twice() -> None:
    count = len(VERBS) * len(FAULTS)
    assert len({(step.verb, step.fault) for step in plan(3, FAULTS, 1, count)}) == count


def test_a_round_has_every_fault_and_all_verbs_alike() -> None:
    for first in (1, len(FAULTS) + 1):
        dealt = plan(3, FAULTS, first, first + len(FAULTS) - 1)
        assert sorted(step.fault for step in dealt) == sorted(FAULTS)
        counts = [sum(step.verb == verb for step in dealt) for verb in VERBS]
        assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize(("text", "steps"), [("", (1, 34)), ("12", (1, 12)), ("7-7", (7, 7)), ("3-9", (3, 9))])
def test_steps_are_a_number_or_a_range(text: str, steps: tuple[int, int]) -> None:
    assert wanted(text) == steps


@pytest.mark.parametrize("text", ["0", "9-3", "x", "-2"])
def test_other_steps_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"STEPS|invalid literal"):
        wanted(text)


def test_the_page_is_what_the_figures_say() -> None:
    assert page.PAGE.read_text() == page.text(json.loads(page.FIGURES.read_text()))


def test_a_run_is_put_together_of_its_portions(tmp_path: Path) -> None:
    def portion(name: str, *numbers: int, seed: int = 5, faults: tuple[str, ...] = ()) -> Path:
        steps = [{"number": number, "faults": list(faults)} for number in numbers]
        (tmp_path / name).write_text(
            json.dumps({"seed": seed, "first": numbers[0], "last": numbers[-1], "steps": steps})
        )
        return tmp_path / name

    files = [portion("a", 1, 2), portion("b", 3, 4, faults=("x",)), portion("c", 4), portion("d", 9)]
    files.append(portion("e", 5, seed=6))
    for at, file in enumerate(files):
        os.utime(file, (at, at))
    runs = page.together(files)
    assert [(run["seed"], run["first"], run["last"]) for run in runs] == [(5, 1, 4), (5, 9, 9), (6, 5, 5)]
    assert [step["faults"] for step in runs[0]["steps"]] == [[], [], ["x"], []]


@pytest.mark.parametrize(
    ("name", "content", "whole"),
    [
        ("result.json", "{}", True),
        ("result.json", '{"a": ', False),
        ("calls.jsonl", '{"a": 1}\n{"a', False),
        ("junit.xml", "<a><b/></a>", True),
        ("junit.xml", "<a><b/>", False),
        ("report.html", "<html></html>\n", True),
        ("report.html", "<html><bo", False),
        (".result.json.x7k2", "{}", False),
    ],
)
def test_half_written_files_are_seen(tmp_path: Path, name: str, content: str, whole: bool) -> None:
    (tmp_path / "result.json").write_text("{}")
    (tmp_path / name).write_text(content)
    assert (traces.half_written(tmp_path) == []) is whole
