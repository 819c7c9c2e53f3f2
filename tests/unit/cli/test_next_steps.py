"""What is printed to be run next repeats what was typed, and offers nothing that was done or can't work here."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from harness.checks.findings import Finding, StageResult
from harness.checks.report import CheckReport, build
from harness.cli import hang_steps, main, next_steps
from harness.cli.check import next_steps as after_check
from harness.cli.hang_steps import fitting
from harness.cli.next_steps import as_typed_here, command_line, typed
from harness.errors import BadSetting
from harness.places import TYPED
from harness.processes.sampling.facts import host
from harness.processes.sampling.model import ProcessEntry
from harness.settings import Settings, for_delegated, load_settings
from tests.support.harness import CLONE

HERE = ProcessEntry(pid=7, host=host(), python="3.11", command="python train.py")


@pytest.fixture(autouse=True)
def _clone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(next_steps, "through_make", lambda: True)
    monkeypatch.setattr(hang_steps, "through_make", lambda: True)
    monkeypatch.setattr(next_steps, "in_container", lambda: False)


def settings_of(**typed_: str) -> Settings:
    """Settings as they are when this was typed after make."""
    return load_settings(environ={**typed_, "DRYDOCK_MAKE_VARS": " ".join(typed_)})


def test_a_dump_of_some_leads_to_a_dump_of_the_same() -> None:
    settings = settings_of(PIDS="41,42", MATCH="train.py --lr $x", GAP="3")
    steps = ["make hang-dump LOCALS=1   # the loop's variables on rank0", "read the log"]
    assert fitting(steps, settings, [HERE]) == [
        "make hang-dump PIDS=41,42 MATCH='train.py --lr $x' LOCALS=1   # the loop's variables on rank0",
        "read the log",
    ]


@pytest.mark.parametrize("name", ["CONTAINERS", "VIA", "HOSTS", "RAY_ADDRESS", "REMOTE"])
def test_every_way_to_say_who_is_meant_is_repeated(name: str) -> None:
    [step] = fitting(["make hang-dump NATIVE=1   # why"], settings_of(**{name: "abc"}), [HERE])
    assert step == f"make hang-dump {name}=abc NATIVE=1   # why"


@pytest.mark.parametrize(
    ("typed_", "step"),
    [
        ({"LOCALS": "1"}, "make hang-dump LOCALS=1   # x"),
        ({"LOCALS": "1", "NATIVE": "1"}, "make hang-dump NATIVE=1   # x"),
        ({"NATIVE": "1"}, "make hang-dump NATIVE=1   # x"),
        ({"TASKS": "1"}, "make hang-dump TASKS=1   # x"),
        ({"GAP": "10"}, "make hang-dump GAP=10   # x"),
        ({"GAP": "30"}, "make hang-dump GAP=10   # x"),
    ],
)
def test_what_was_done_is_not_offered_again(typed_: dict[str, str], step: str) -> None:
    assert fitting([step], settings_of(**typed_), [HERE], tasks_work=lambda _: True) == []
    assert fitting([step], settings_of(), [HERE], tasks_work=lambda _: True) == [step]


def test_our_own_stack_is_not_asked_about_somebody_elses_server() -> None:
    step = "make check STAGE=1   # does it generate a token now?"
    assert fitting([step], settings_of(CONTAINERS="theirs"), [HERE]) == []
    assert fitting([step], settings_of(), [HERE]) == [step]


def test_a_plain_dump_is_not_what_comes_after_a_dump() -> None:
    assert fitting(["make hang-dump   # every process twice"], settings_of(PIDS="7"), [HERE]) == []


def test_await_chains_are_offered_only_where_they_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    step = "make hang-dump TASKS=1   # x"
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert fitting([step], settings_of(), [HERE]) == []
    assert fitting([step], settings_of(), [dataclasses.replace(HERE, python="3.14")]) == [step]
    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/gdb")
    monkeypatch.setattr(hang_steps, "why_not", lambda _: "")
    assert fitting([step], settings_of(), [HERE]) == [step]
    assert fitting([step], settings_of(), [dataclasses.replace(HERE, container="dev-1")]) == []
    monkeypatch.setattr(hang_steps, "why_not", lambda _: "gdb 13.1 can't on this processor")
    assert fitting([step], settings_of(), [HERE]) == []


def test_a_dump_of_everything_leads_to_one_of_everything() -> None:
    steps = fitting(["make hang-dump LOCALS=1"], settings_of(), [HERE], everything=True)
    assert steps == ["make hang-dump MATCH=. LOCALS=1"]


def test_what_lies_in_the_file_or_is_secret_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "drydock.env").write_text("MATCH=from_file\n")
    monkeypatch.setattr("harness.settings.loading.home", lambda: tmp_path)
    settings = settings_of(AGENT="a.py:A", OPENAI_API_KEY="sk-abc")
    assert typed(settings, ("agent", "match", "openai_api_key")) == {"agent": "a.py:A"}


def test_without_make_there_are_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(next_steps, "through_make", lambda: False)
    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/harness")
    assert as_typed_here("make hang-dump GAP=9 LOCALS=1   # x", {"match": "a b"}) == (
        "harness hang-dump --match 'a b' --gap 9 --locals   # x"
    )


def test_a_command_that_was_handed_on_into_a_container_repeats_what_was_typed_outside() -> None:
    settings = settings_of(AGENT="mine.py:A", CONFIG="/home/me/grpo.yaml")
    inside = load_settings(
        environ={**for_delegated(settings), "AGENT": "mine.py:A", "CONFIG": "/workspace/grpo.yaml", "SEED": "1"}
    )
    assert json.loads(for_delegated(settings)[TYPED]) == {"AGENT": "mine.py:A", "CONFIG": "/home/me/grpo.yaml"}
    assert typed(inside, ("agent", "config", "seed")) == {"agent": "mine.py:A", "config": "/home/me/grpo.yaml"}


def report(*stages: int, failed: bool = False) -> CheckReport:
    """A report on these stages, of which each failed or didn't."""
    finding = Finding(id="x.y", title="x", status="fail" if failed else "pass")
    return build([StageResult(stage=number, title="t", findings=(finding,)) for number in stages], seed=5)


LOAD = {"AGENT": "mine.py:A", "SERVER": "simulated", "GLOBAL_BS": "4", "GROUP_SIZE": "2"}


def test_after_the_simulated_server_comes_the_real_one() -> None:
    [step] = after_check(report(3), settings_of(**LOAD, FAULTS="all"))
    assert step == "make check AGENT=mine.py:A GLOBAL_BS=4 GROUP_SIZE=2 STAGE=3   # against the real server"


@pytest.mark.parametrize("code", [True, False])
@pytest.mark.parametrize("stages", [(1,), (1, 2), (3,)])
def test_a_check_leads_to_a_check_of_the_same(stages: tuple[int, ...], code: bool) -> None:
    [step] = after_check(report(*stages, failed=code), settings_of(**LOAD))
    for name, value in LOAD.items():
        if name != "SERVER" or code or stages[-1] < 3:
            assert f" {name}={value}" in step


def test_a_green_check_of_ones_own_agent_leads_to_the_next_stage() -> None:
    [step] = after_check(report(1, 2), settings_of(AGENT="mine.py:A"))
    assert step.startswith("make check AGENT=mine.py:A STAGE=3 ")
    [step] = after_check(report(3), settings_of(AGENT="mine.py:A", CONFIG="grpo.yaml"))
    assert step.startswith("make check AGENT=mine.py:A CONFIG=grpo.yaml STAGE=4 ")
    [step] = after_check(report(1, 2), settings_of())
    assert "my_agent.py" in step


@pytest.mark.parametrize(
    ("workspace", "config"), [("examples", "training/areal.yaml"), ("tests", "YOUR_TRAINING.yaml")]
)
def test_a_configuration_that_is_proposed_is_there_or_plainly_ones_own(workspace: str, config: str) -> None:
    [step] = after_check(report(3), settings_of(AGENT="mine.py:A", WORKSPACE=str(CLONE / workspace)))
    assert f" CONFIG={config} " in step


def test_a_server_that_was_named_is_named_again(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(OPENAI_BASE_URL="http://127.0.0.1:9/v1", OPENAI_API_KEY="sk-secret")
    [step] = after_check(report(1), settings)
    assert step == "make check STAGE=2 OPENAI_BASE_URL=http://127.0.0.1:9/v1   # one run of the agent"
    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/harness")
    [step] = after_check(report(1), settings, " --here")
    assert step.startswith("harness check --stage 2 --base-url http://127.0.0.1:9/v1 --here ")


def test_what_make_has_no_name_for_is_repeated_as_a_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/harness")
    [step] = after_check(report(1, 2), settings_of(AGENT="mine.py:A"), " --here")
    assert step == "harness check --agent mine.py:A --stage 3 --here   # many runs at once"


def test_a_command_line_quotes_for_a_shell() -> None:
    assert command_line("run", {"cmd": "echo $5 'x'"}) == "make run CMD='echo $5 '\"'\"'x'\"'\"''"


@pytest.mark.parametrize("verb", ["hang-dump", "hang-watch"])
def test_a_pid_that_another_verb_takes_is_refused(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PID", "123")
    monkeypatch.setenv("DRYDOCK_MAKE_VARS", "PID")
    assert main.run([verb]) == 2
    assert "did you mean PIDS=123?" in capsys.readouterr().err


def test_a_mistyped_verb_or_line_of_the_file_is_told_what_it_may_have_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["watch"]) == 2
    assert "Did you mean `hang-watch`?" in capsys.readouterr().err
    (tmp_path / "drydock.env").write_text("MODLE=x\n")
    monkeypatch.setattr("harness.settings.loading.home", lambda: tmp_path)
    with pytest.raises(BadSetting, match="did you mean MODEL="):
        load_settings(environ={})


@pytest.mark.parametrize(
    ("step", "shown"),
    [
        (
            "make the HTTP client once, or give it the http_client",
            "make the HTTP client once, or give it the http_client",
        ),
        ("make sure that it ends", "make sure that it ends"),
        ("make logs S=inference   # why did it go?", "make logs S=inference   # why did it go?"),
        ("make up   # installs it", "make up MODEL=tiny   # installs it"),
        ("make check STAGE=2", "make check AGENT=a.py:A DATA=d.jsonl MODEL=tiny STAGE=2"),
    ],
)
def test_a_step_repeats_what_its_verb_takes_and_a_sentence_is_none(step: str, shown: str) -> None:
    assert as_typed_here(step, {"agent": "a.py:A", "data": "d.jsonl", "model": "tiny"}) == shown


def test_where_a_verb_lacks_its_packages_its_step_is_as_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container there is no package for Docker."""

    def lacking(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'docker'")

    monkeypatch.setattr(main.Verbs, "get_command", lacking)
    assert as_typed_here("make up   # why", {"model": "tiny"}) == "make up   # why"
