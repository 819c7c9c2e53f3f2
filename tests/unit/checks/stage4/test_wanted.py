from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.agent.source import AgentSource
from harness.checks.stage4 import support
from harness.checks.stage4.job import names_of
from harness.checks.stage4.stage import scheduler_line
from harness.checks.stage4.wanted import MODEL_FOLDER, MOST_PROMPTS, Wanted, backend, wanted
from harness.errors import BadConfig, BadSetting, DrydockError, LibraryMissing
from harness.settings import load_settings

EXAMPLE = Path(__file__).parents[4] / "examples/training/areal.yaml"
CONFIG = """
experiment_name: e
trial_name: t
actor: {path: my/model}
rollout: {backend: "sglang:d4t1"}
gconfig: {n_samples: 8}
train_dataset: {batch_size: 64}
scheduler: {type: local}
"""


def want(tmp_path: Path, text: str = CONFIG, **flags: Any) -> Wanted:
    (tmp_path / "train.yaml").write_text(text)
    settings = load_settings({"config": "train.yaml", "areal_python": sys.executable, **flags}, environ={})
    return wanted(settings, [tmp_path])


def test_the_size_is_the_trainings_but_not_more_than_a_cpu_bears(tmp_path: Path) -> None:
    found = want(tmp_path)
    assert (found.prompts, found.group_size, found.of_prompts) == (MOST_PROMPTS, 8, 64)
    assert want(tmp_path, global_bs=64).prompts == 64
    assert want(tmp_path, group_size=2).group_size == 2


def test_what_a_check_cannot_take_over_is_put_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = want(tmp_path).settings
    assert found["tokenizer_path"] == "my/model"
    assert found["request_timeout"] == 240
    assert len(found["agent.admin_api_key"]) == 32
    monkeypatch.setenv(MODEL_FOLDER, str(tmp_path))
    assert want(tmp_path).settings["tokenizer_path"] == str(tmp_path)


def test_what_the_configuration_says_itself_is_left(tmp_path: Path) -> None:
    own = f"rollout: {{tokenizer_path: {tmp_path}, request_timeout: 60, agent: {{admin_api_key: mine}}}}"
    assert want(tmp_path, CONFIG.replace('rollout: {backend: "sglang:d4t1"}', own)).settings == {}


def test_break_starts_the_worker_under_a_debugger_and_gives_it_time(tmp_path: Path) -> None:
    found = want(tmp_path, pause=True)
    assert "debugpy --listen 127.0.0.1:5688 --wait-for-client" in found.settings["scheduling_spec.0.cmd"]
    assert found.settings["request_timeout"] > 24 * 3600
    assert found.debugged


@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        ("gconfig: {n_samples: 2}\nallocation_mode: sglang:d1\n", BadConfig, "has no section rollout"),
        ("experiment_name: e\nactor: {path: m}\ngconfig: {}\n", BadConfig, "has no section rollout"),
        ("a: 1\n", BadConfig, "neither AReaL's nor verl's"),
        (CONFIG.replace("local", "kubernetes"), BadConfig, "no scheduler 'kubernetes'"),
    ],
)
def test_a_configuration_that_is_none_is_refused(
    tmp_path: Path, text: str, kind: type[DrydockError], sentence: str
) -> None:
    with pytest.raises(kind, match=sentence):
        want(tmp_path, text)


def test_what_contradicts_itself_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="CONFIG is not set"):
        wanted(load_settings({}, environ={}), [tmp_path])
    with pytest.raises(BadSetting, match="REPLAY does without both"):
        want(tmp_path, replay=tmp_path)
    with pytest.raises(BadSetting, match="no program"):
        want(tmp_path, areal_python=tmp_path / "python")
    with pytest.raises(LibraryMissing, match="needs AReaL"):
        want(tmp_path, areal_python=None)


@pytest.mark.parametrize(
    ("scheduler", "reward", "status", "sentence"),
    [
        ("local", False, "pass", "local with an agent"),
        ("ray", False, "skip", "Proxy workers not supported with RayScheduler"),
        ("ray", True, "skip", "actors of a Ray cluster"),
        ("slurm", False, "skip", "a batch job"),
    ],
)
def test_what_areal_does_not_run_is_skipped_with_the_reason_and_never_passed(
    tmp_path: Path, scheduler: str, reward: bool, status: str, sentence: str
) -> None:
    (tmp_path / "rewards.py").write_text("def reward(*_, **__):\n    return 1.0\n")
    more = {"reward": "rewards.py:reward"} if reward else {}
    finding = scheduler_line(want(tmp_path, CONFIG.replace("local", scheduler), **more))
    assert finding.status == status
    assert sentence in finding.detail


def test_a_configuration_without_a_scheduler_is_checked_locally_and_told(tmp_path: Path) -> None:
    finding = scheduler_line(want(tmp_path, CONFIG.replace("scheduler: {type: local}\n", "")))
    assert finding.status == "warn"
    assert "training refuses that" in finding.detail


def test_every_pair_has_a_verdict() -> None:
    assert {(one.scheduler, one.workflow) for one in support.MATRIX} == {
        (scheduler, workflow) for scheduler in ("local", "ray", "slurm") for workflow in ("agent", "rlvr")
    }
    assert all(one.why for one in support.MATRIX if one.verdict != "runs")


@pytest.mark.parametrize(
    ("text", "generate", "expected"),
    [("sglang:d4t1", True, "sglang:d1"), ("sglang:d4t1", False, "vllm:d1"), ("vllm:d2", True, "vllm:d1")],
)
def test_the_client_is_that_of_the_server_that_is_there(text: str, generate: bool, expected: str) -> None:
    assert backend(text, generate) == expected


def test_the_example_is_read(tmp_path: Path) -> None:
    found = want(tmp_path, EXAMPLE.read_text())
    assert (found.prompts, found.group_size) == (8, 4)


def test_an_agent_is_looked_for_by_the_names_that_training_may_give_it() -> None:
    by_file = AgentSource("agents/mine.py:A", "mine", "A", Path("/w/agents/mine.py"), ())
    assert names_of(by_file, Path("/w")) == ["mine", "agents.mine"]
    assert names_of(by_file, Path("/elsewhere")) == ["mine"]
    assert names_of(replace(by_file, given="mine:A"), Path("/w")) == ["mine"]
