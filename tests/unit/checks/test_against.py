from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.checks import against, show_against
from harness.checks.findings import Finding, StageResult, Status
from harness.checks.report import build
from harness.errors import NoSuchRun


def finding(id_: str, status: Status, detail: str = "") -> Finding:
    return Finding(id=id_, title=f"the {id_}", status=status, detail=detail)


def kept(name: str, *findings: Finding, packages: dict[str, str] | None = None, **figures: Any) -> against.Kept:
    stage = StageResult(stage=2, title="s", findings=findings, figures=figures)
    report = build([stage], asked={"agent": "a.py:A", "model": name})
    return against.Kept(name, report, {"packages": packages or {}, "python": "3.11"})


def test_what_got_worse_comes_first() -> None:
    before = kept("one", finding("a", "fail"), finding("b", "pass"), finding("c", "pass"), finding("gone", "warn"))
    after = kept("two", finding("a", "pass"), finding("b", "warn", "hm"), finding("c", "pass"), finding("new", "fail"))
    compared = against.compare(before, after)
    assert [(c.id, c.before, c.after) for c in compared.changes] == [
        ("b", "pass", "warn"),
        ("new", None, "fail"),
        ("a", "fail", "pass"),
        ("gone", "warn", None),
    ]
    assert compared.worse == 2


def test_of_several_findings_with_one_id_the_worst_counts() -> None:
    before = kept("one", finding("a", "fail"), finding("a", "pass"))
    assert against.compare(before, kept("two", finding("a", "fail"))).changes == ()


def test_figures_that_moved_are_told_and_chance_is_not() -> None:
    before = kept("one", calls=2, run_seconds=1.0, latency={"p50": 1.0, "p99": 0.0}, seed=1, text="x", ok=True)
    after = kept("two", calls=2, run_seconds=1.02, latency={"p50": 3.0, "p99": 2.0}, seed=2, text="y", ok=False)
    moved = {m.name: (m.before, m.after, m.ratio) for m in against.compare(before, after).figures}
    assert moved == {"stage 2: latency.p50": (1.0, 3.0, 3.0), "stage 2: latency.p99": (0.0, 2.0, None)}


def test_other_versions_and_another_question_are_told() -> None:
    compared = against.compare(
        kept("one", packages={"openai": "2.0", "same": "1"}),
        kept("two", packages={"openai": "3.0", "same": "1", "n": "1"}),
    )
    assert compared.environment == (("n", "–", "1"), ("openai", "2.0", "3.0"))
    assert compared.asked == (("model", "one", "two"),)


def test_equal_ones_have_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    one = kept("one", finding("a", "pass"), calls=1)
    compared = against.compare(one, one)
    show_against.lines(compared)
    assert "no difference" in capsys.readouterr().out
    assert "No finding changed" in show_against.page(compared)


def test_lines_and_page_show_both_sides(capsys: pytest.CaptureFixture[str]) -> None:
    before, after = kept("one", finding("a", "pass", "was fine")), kept("two", finding("a", "fail", "<b>[red]broken"))
    compared = against.compare(before, after)
    show_against.lines(compared)
    out = capsys.readouterr().out
    assert "✗ the a (a): pass → fail" in out
    assert "before: was fine" in out
    assert "now: <b>[red]broken" in out
    page = show_against.page(compared)
    assert "&lt;b&gt;[red]broken" in page
    assert "<b>[red]" not in page
    assert json.loads(json.dumps(compared.as_dict()))["worse"] == 1


@pytest.mark.parametrize("text", [None, "{", "[]", '{"stages": 5}'])
def test_a_folder_without_a_checks_result_is_told(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "result.json").write_text(text)
    with pytest.raises(NoSuchRun, match="holds no result of a check"):
        against.read(tmp_path)


def test_a_figure_that_no_number_can_be_is_not_compared() -> None:
    assert dict(against._numbers({"a": 10**400, "b": float("nan"), "c": {"d": 2}})) == {"c.d": 2.0}
