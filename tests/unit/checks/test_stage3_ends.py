"""Stage 3: rewards that no framework takes, and what is said of runs that did not end and of calls elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from harness.agent import rewards as described
from harness.checks import scaling, stage3_rows, stage3_rules
from harness.checks.stage3_data import Asked, CallRow
from harness.checks.stage3_ends import Case, process_lives, runs_end, server_lives
from harness.checks.stage3_gather import Load
from tests.support.load_data import load_data


def ended(reward: Any, *ids: str) -> stage3_rows.Rows:
    """One run that returned this, and was answered with these completions."""
    asked = load_data(1)[0].asked.model_copy(update={"runs": 1, "group_size": 1})
    load = Load(held=[{}, {}])
    load.runs = [
        {"run": 0, "started": 0.0, "ended": 1.0, "outcome": "returned", "reward": described.describe(reward).as_dict()}
    ]
    load.calls = [
        {"run": 0, "number": n, "generation": False, "reply_id": id_, "path": "/v1/chat/completions"}
        for n, id_ in enumerate(ids, 1)
    ]
    return stage3_rows.build(load, asked, [1])


@pytest.mark.parametrize(
    ("reward", "status", "words"),
    [
        (1.0, "pass", "1 × float"),
        ({"a": 1.0, "b": 0.0}, "pass", "1 × dict"),
        ({"reward": 1.0}, "fail", "keys are no completion's id: reward"),
        ({"a": 1.0, "total": 1.0}, "fail", "1 of 2 keys are no completion's id: total"),
        ({}, "fail", "an empty dict"),
        ({1: 1.0}, "fail", "keys are of type int"),
        ({"a": float("nan")}, "fail", "no finite number"),
        (1, "fail", "of a type that is dropped"),
    ],
)
def test_each_part_of_a_dict_belongs_to_a_call(reward: Any, status: str, words: str) -> None:
    case = Case(Load(held=[{}, {}]), ended(reward, "a", "b"), None)  # type: ignore[arg-type]
    [finding] = stage3_rules.rewards(case)
    assert finding.status == status
    assert words in finding.detail


@pytest.mark.parametrize("interrupted", [False, True])
def test_calls_that_ctrl_c_cut_off_are_not_held_against_the_agent(interrupted: bool) -> None:
    data, _, _ = load_data(4)
    load = Load(held=[{}, {}], interrupted=interrupted)
    load.trace.events.append({"event": "began"})
    asked: Asked = data.asked
    rows = stage3_rows.Rows((), (), (), data.model_copy(update={"asked": asked}))
    case = Case(load, rows, None)  # type: ignore[arg-type]
    assert [finding.status for finding in stage3_rules.calls(case)] == ([] if interrupted else ["fail"])
    [ends] = runs_end(case)
    assert ("had not ended" in ends.detail) is interrupted
    assert ("never began" in ends.detail) is not interrupted
    assert ends.status == ("warn" if interrupted else "fail")


def stands_still(*frames: dict[str, Any], main: bool, calls: int) -> Case:
    """The run that comes first hasn't ended after ten seconds."""
    load = Load(held=[{}, {}])
    load.trace.events += [{"event": "constructed"}]
    load.trace.cut, load.trace.cut_during = 10.0, "run"
    threads = [{"main": True, "frames": list(frames) if main else []}]
    load.trace.stacks = {"threads": threads, "tasks": [] if main else [{"frames": list(frames)}]}
    load.first_calls = [{"generation": True}] * calls
    data, _, _ = load_data(4)
    return Case(load, stage3_rows.Rows((), (), (), data), None)  # type: ignore[arg-type]


OWN = {"file": "/work/agent.py", "line": 27, "function": "run", "own": True, "source": "await create()"}


@pytest.mark.parametrize(
    ("main", "calls", "title", "words"),
    [
        (True, 0, "event loop", "blocks at"),
        (False, 1, "runs end", "waits at"),
        (False, 11, "runs end", "with 11 calls to the model until then; waits at"),
    ],
)
def test_who_awaits_blocks_nobody_and_turns_without_an_end_are_counted(
    main: bool, calls: int, title: str, words: str
) -> None:
    [finding] = process_lives(stands_still(OWN, main=main, calls=calls))
    assert finding.title == title
    assert words in finding.detail
    assert ("event loop" in finding.consequence) is main
    assert ("max_turns" in finding.mend) is (calls > 5)


@pytest.mark.parametrize(("elsewhere", "told"), [("", 1), ("https://api.openai.com", 0)])
def test_calls_to_another_address_say_nothing_about_the_server(elsewhere: str, told: int) -> None:
    data, _, calls = load_data(4)
    failed = [
        call.model_copy(update={"status": None, "failure": "ConnectError: no such name", "elsewhere": elsewhere})
        for call in calls
    ]
    case = Case(Load(held=[{}, {}]), stage3_rows.Rows((), tuple(failed), (), data), None)  # type: ignore[arg-type]
    assert len(list(server_lives(case))) == told


@pytest.mark.parametrize(
    ("met", "words"),
    [
        (("500",), "leave the SDK's retries on"),
        (("500", "503", "500"), "max_retries= above the SDK's 2"),
        (("cut-stream",), "no stream that has begun"),
        (("empty",), "give such an answer a reward"),
    ],
)
def test_what_a_run_could_have_done_against_a_fault(met: tuple[str, ...], words: str) -> None:
    data, runs, _ = load_data(4)
    died = runs[0].model_copy(update={"outcome": "raised", "error": "APIError", "reward": None, "faults": met})
    case = Case(Load(held=[{}, {}]), stage3_rows.Rows((died,), (), (), data), None)  # type: ignore[arg-type]
    told = {finding.id: finding for finding in stage3_rules.faults(case)}[f"faults.{met[-1]}"]
    assert words in told.mend


def test_an_agent_that_meets_faults_is_held_against_no_rate() -> None:
    """A bare client meets none."""
    data, runs, calls = load_data(64)
    asked = data.asked.model_copy(update={"faults": "all"})
    rows = stage3_rows.Rows(tuple(runs), tuple(calls), (), data.model_copy(update={
        "asked": asked, "stalls": (), "profile": (), "waits": (), "clients": (),
    }))  # fmt: skip
    verdict = scaling.judge(rows, bare_rate=1e6)
    assert verdict.kind == "undecided"
    assert "fail" in verdict.reason


def answered(*answers: tuple[str, int], server: str = "running", fault: str = "") -> list[tuple[str, str]]:
    """Status and detail of what is said of answers, each with its reason to end and its tokens."""
    data, _, _ = load_data(4)
    made = tuple(
        CallRow(
            run=number, number=1, path="/v1/chat/completions", started=0.0, ended=1.0, status=200,
            finish_reason=reason, completion_tokens=tokens, fault=fault,
        )
        for number, (reason, tokens) in enumerate(answers)
    )  # fmt: skip
    asked = data.asked.model_copy(update={"server": server})
    rows = stage3_rows.Rows((), made, (), data.model_copy(update={"asked": asked}))
    case = Case(Load(held=[{}, {}]), rows, None)  # type: ignore[arg-type]
    return [(one.status, one.detail.partition(":")[0]) for one in stage3_rules.answers(case)]


def test_answers_that_are_all_cut_after_a_word_warn() -> None:
    said = [("warn", "2 of 2 cut at the token limit")]
    assert answered(("length", 1), ("length", 2)) == said
    assert answered(("length", 1), ("length", 2), server="simulated") == said


def test_answers_that_are_long_or_whole_or_cut_on_purpose_dont() -> None:
    assert answered(("length", 16), ("stop", 2)) == [("pass", "1 of 2 cut at the token limit")]
    assert answered(("length", 16), ("length", 16), server="simulated") == []
    assert answered(("stop", 1), ("stop", 2)) == []
    assert answered(("length", 1), fault="length") == []
    assert answered() == []
