from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from harness.agent.runner import Limits
from harness.checks import report as reports
from harness.checks import run, show, stage1, stage2
from harness.checks.findings import Finding, Place, StageResult, Status
from harness.checks.gather import Gathered
from harness.checks.run import Listener, Request
from harness.errors import AgentNotFound, DataNotFound, Interrupted, UsageError
from harness.openai_api.http import Endpoint
from harness.runs import RunFolder


def request(tmp_path: Path, *stages: int, **changes: Any) -> Request:
    (tmp_path / "a.py").write_text("class A:\n    async def run(self, data, **k): return 1.0\n")
    (tmp_path / "d.jsonl").write_text('{"a": 1}\n')
    fields: dict[str, Any] = {
        "stages": stages,
        "endpoint": Endpoint("http://fake/v1", ""),
        "model": "",
        "agent": "a.py:A",
        "data": "d.jsonl",
        "seed": 5,
        "limits": Limits(),
        "folders": (tmp_path,),
    }
    return Request(**{**fields, **changes})


def result(number: int, status: Status) -> StageResult:
    finding = Finding(id=f"x.{number}", title="t", status=status, detail="d", place=Place(file="f.py", line=3))
    return StageResult(stage=number, title="s", findings=(finding,), seconds=1.0)


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> dict[Any, Any]:
    """Stages that end as a test says, and what they were called with."""
    outcome: dict[Any, Any] = {1: "pass", 2: "pass"}

    def first(_endpoint: Endpoint, *, model: str, **_: Any) -> tuple[str, StageResult]:
        if isinstance(outcome[1], BaseException):
            raise outcome[1]
        return "served-model", result(1, outcome[1])

    def second(plan: stage2.Plan, _endpoint: Endpoint, **_: Any) -> stage2.Done:
        outcome["model"] = plan.model
        if isinstance(outcome[2], BaseException):
            raise outcome[2]
        return stage2.Done(result(2, outcome[2]), Gathered(), plan.seed)

    monkeypatch.setattr(stage1, "run", first)
    monkeypatch.setattr(stage2, "run", second)
    return outcome


def check(asked: Request, tmp_path: Path) -> tuple[reports.CheckReport, Path]:
    folder = RunFolder.create(tmp_path / "runs", "check")
    report = run.check(asked, run.prepare(asked), folder, listener=Listener(), fingerprint=fingerprint)
    return report, folder.path


def fingerprint() -> Mapping[str, Any]:
    return {"python": "3"}


def test_both_stages_are_run_and_reported(tmp_path: Path, stages: dict[Any, Any]) -> None:
    report, folder = check(request(tmp_path, 1, 2), tmp_path)
    assert (report.exit_code, report.seed, report.counts["pass"], report.ended_early) == (0, 5, 2, "")
    assert stages["model"] == "served-model"
    kept = json.loads((folder / "result.json").read_text())
    assert kept["stages"][1]["findings"][0]["id"] == "x.2"
    assert kept["asked"]["model"] == "served-model"
    suites = ElementTree.parse(folder / "junit.xml").getroot().findall("testsuite")
    assert [suite.get("name") for suite in suites] == ["drydock.check.stage1", "drydock.check.stage2"]
    assert json.loads((folder / "environment.json").read_text()) == {"python": "3"}
    assert (folder / "stage2" / "calls.jsonl").is_file()


def test_a_failed_server_keeps_stage_2_from_running(tmp_path: Path, stages: dict[Any, Any]) -> None:
    stages[1] = "fail"
    report, _ = check(request(tmp_path, 1, 2), tmp_path)
    assert report.exit_code == 1
    assert [stage.stage for stage in report.stages] == [1]
    assert "stage 2 was not run" in report.ended_early


@pytest.mark.parametrize("status", ["warn", "absent", "skip"])
def test_only_a_failure_fails_the_check(tmp_path: Path, stages: dict[Any, Any], status: str) -> None:
    stages[1] = stages[2] = status
    assert check(request(tmp_path, 1, 2), tmp_path)[0].exit_code == 0


def test_ctrl_c_leaves_a_report_on_what_was_done(tmp_path: Path, stages: dict[Any, Any]) -> None:
    stages[2] = KeyboardInterrupt()
    with pytest.raises(Interrupted):
        check(request(tmp_path, 1, 2), tmp_path)
    kept = json.loads((tmp_path / "runs" / "latest" / "result.json").read_text())
    assert kept["ended_early"] == "stopped by Ctrl-C"
    assert [stage["stage"] for stage in kept["stages"]] == [1]


def test_wrong_names_are_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(AgentNotFound):
        run.prepare(request(tmp_path, 1, 2, agent="b.py:A"))
    with pytest.raises(DataNotFound):
        run.prepare(request(tmp_path, 2, data="e.jsonl"))


def test_stage_1_alone_needs_neither_agent_nor_data(tmp_path: Path) -> None:
    assert run.prepare(request(tmp_path, 1, agent="nonsense", data="nonsense")) is None


@pytest.mark.parametrize(("text", "wanted"), [("1,2", (1, 2)), ("2", (2,)), ("2 1", (1, 2)), ("1,1,", (1,))])
def test_stages_are_read(text: str, wanted: tuple[int, ...]) -> None:
    assert run.parse_stages(text) == wanted


@pytest.mark.parametrize("text", ["0", "5", "one", "2-1", "1-", "1-9", "-2", "", ","])
def test_unknown_stages_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        run.parse_stages(text)


@pytest.mark.parametrize(("text", "value"), [(None, {}), ("", {}), ('{"turns": 3}', {"turns": 3})])
def test_arguments_for_an_agent_are_read(text: str | None, value: dict[str, Any]) -> None:
    assert run.parse_arguments(text) == value


@pytest.mark.parametrize("text", ["turns=3", "[1]", "3"])
def test_arguments_that_are_no_object_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        run.parse_arguments(text)


def test_a_person_sees_each_finding_what_follows_and_the_way_on(
    tmp_path: Path, stages: dict[Any, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    findings = (
        Finding(id="a", title="good", status="pass", detail="fine"),
        Finding(
            id="b",
            title="bad",
            status="fail",
            detail="broken [red]",
            consequence="it bites",
            mend="mend it\nor not",
            stack=(Place(file="/x/f.py", line=3, function="run", source="boom()"),),
        ),
        Finding(id="c", title="one", status="skip", detail="not asked: why"),
        Finding(id="d", title="two", status="skip", detail="not asked: why"),
    )
    with show.Progress() as progress:
        progress.begins(2, "one run")
        progress.tells("1 call")
        progress.ends(StageResult(stage=2, title="one run", findings=findings, figures={"calls": 2, "line": 7}))
    report = reports.build([StageResult(stage=2, title="one run", findings=findings)], seed=9)
    show.summary(report, Path("/r/x"), next_steps=["make check"])
    out = capsys.readouterr().out
    for line in (
        "Stage 2: one run",
        "✓ good: fine",
        "✗ bad: broken [red]",
        "    /x/f.py:3 in run   boom()",
        "    it bites",
        "  → mend it",
        "  → or not",
        "· not asked: why: one, two",
        "· sample of line 7, calls: 2",
        "✗ 1 passed, 1 failed, 2 not looked at in 0.0 s",
        "· SEED=9 takes the same sample again",
        "· report: /r/x",
        "  → make check",
    ):
        assert line in out.splitlines(), out
