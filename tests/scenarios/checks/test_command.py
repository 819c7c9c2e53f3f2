"""The command itself: exit codes, JSON on standard output, what is kept."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from tests.scenarios.checks.conftest import HERE, Checker
from tests.support.fake_model import KEY, MODEL


def test_both_stages_pass_and_all_is_kept(check: Checker) -> None:
    done = check("--agent", f"{HERE / 'agents.py'}:Good")
    assert done.code == 0, str(done)
    assert "Stage 1: the server at" in done.stdout
    assert "✓ chat: answers in" in done.stdout
    assert "Paris" in done.stdout
    assert "✓ reward: 1.0 (float)" in done.stdout
    assert "SEED=" in done.stdout
    [step] = [line for line in done.stdout.splitlines() if "→ harness check" in line]
    assert "agents.py:Good --data data.jsonl --stage 3 --base-url http://127.0.0.1:" in step
    assert sorted(path.name for path in done.folder.iterdir()) == [
        "environment.json",
        "junit.xml",
        "report.html",
        "result.json",
        "stage2",
    ]
    assert done.report["asked"]["model"] == MODEL
    cases = ElementTree.parse(done.folder / "junit.xml").getroot().findall("testsuite/testcase")
    assert len(cases) == len(done.findings)
    environment = json.loads((done.folder / "environment.json").read_text())
    assert environment["packages"]["openai"]


def test_json_is_the_only_thing_on_standard_output(check: Checker) -> None:
    done = check("--agent", f"{HERE / 'agents.py'}:Floods", "--json")
    assert json.loads(done.stdout)["counts"]["fail"] == 0, str(done)
    assert "Stage 2" in done.stderr
    assert KEY not in done.stdout


def test_json_of_an_error_is_json_too(check: Checker) -> None:
    done = check("--stage", "9", "--json")
    assert done.code == 2
    assert json.loads(done.stdout)["error"] == "UsageError"


def test_a_server_that_is_not_there_fails_stage_1_and_is_unfit_for_stage_2(check: Checker) -> None:
    nowhere = "http://127.0.0.1:9/v1"
    first = check.command_here("--stage", "1", OPENAI_BASE_URL=nowhere)
    assert first.code == 1, str(first)
    assert "nothing listens on 127.0.0.1:9" in first.stdout
    second = check.command_here("--stage", "2", "--agent", f"{HERE / 'agents.py'}:Good", OPENAI_BASE_URL=nowhere)
    assert second.code == 3, str(second)
    assert "nothing listens on 127.0.0.1:9" in second.stderr


def test_a_wrong_key_is_told_and_not_shown(check: Checker) -> None:
    done = check.command_here("--stage", "1", OPENAI_API_KEY="some-wrong-key-0123")
    assert done.code == 1
    assert "the key is refused" in done.stdout
    assert "some-wrong-key-0123" not in done.stdout + done.stderr + done.written()


def test_a_key_may_come_from_a_file(check: Checker) -> None:
    (check.folder / "key").write_text(f"{KEY}\n")
    done = check.command_here("--stage", "1", "--api-key-file", "key", OPENAI_API_KEY="")
    assert done.code == 0, str(done)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--stage", "3x"), "there is no stage"),
        (("--seed", "abc"), "SEED=abc"),
        (("--timeout", "0"), "TIMEOUT=0"),
        (("--base-url", "host:8080"), "no http:// or https:// address"),
        (("--api-key-file", "nothing"), "can't be read"),
        (("--agent-args", "{"), "no JSON"),
        (("--data", "nothing.jsonl"), "there is no data set nothing.jsonl"),
        (("--no-such-flag",), "no-such-flag"),
    ],
)
def test_wrong_usage_is_told_in_a_sentence(check: Checker, arguments: tuple[str, ...], words: str) -> None:
    done = check.command_here("--agent", f"{HERE / 'agents.py'}:Good", *arguments)
    assert done.code == 2, str(done)
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (check.folder / "runs").exists()


def test_without_any_server_it_says_what_to_set(check: Checker) -> None:
    done = check.command_here("--stage", "1", OPENAI_BASE_URL="")
    assert done.code == 2, str(done)
    assert "OPENAI_BASE_URL isn't set" in done.stderr


def test_results_that_cannot_be_kept_are_told_before_anything_runs(check: Checker) -> None:
    (check.folder / "file").write_text("")
    done = check.command_here("--stage", "1", RUNS=str(check.folder / "file"))
    assert done.code == 3, str(done)
    assert "results can't be written" in done.stderr
    assert check.model.requests == []
