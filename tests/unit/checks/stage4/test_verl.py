"""What stage 4 says of a batch of verl's, without verl; each test spoils one thing of a sound one."""

from __future__ import annotations

import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from harness.agent import rewards
from harness.checks.findings import Finding
from harness.checks.lint.config import read
from harness.checks.stage4 import rules, verl_rules
from harness.checks.stage4.data import Asked, Rolled
from harness.checks.stage4.frameworks import VERL
from harness.checks.stage4.wanted import MODEL_FOLDER, Wanted, wanted
from harness.errors import LibraryMissing
from harness.settings import load_settings
from tests.unit.checks.stage4.rolled import AGENT, ANSWER, LOGPROBS, PROMPT, STARTED, engine_call, event

EXAMPLE = Path(__file__).parents[4] / "examples/training/verl.yaml"
CONFIG = """
actor_rollout_ref:
  model: {path: my/model}
  rollout: {name: vllm, n: 4}
data: {train_batch_size: 64}
"""
CUSTOM = "\nreward: {custom_reward_function: {path: score.py, name: score}}\n"


def tensor(dtype: str, *shape: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape)}


def group(reward: float = 1.0) -> dict[str, Any]:
    """One run: three tokens of a prompt in four places, two of an answer in three."""
    tensors = {
        "prompts": tensor("int64", 1, 4), "responses": tensor("int64", 1, 3), "response_mask": tensor("int64", 1, 3),
        "input_ids": tensor("int64", 1, 7), "attention_mask": tensor("int64", 1, 7),
        "position_ids": tensor("int64", 1, 7), "rollout_log_probs": tensor("float32", 1, 3),
        "rm_scores": tensor("float32", 1, 3),
    }  # fmt: skip
    rows = {
        "prompts": [[0, *PROMPT]], "responses": [[*ANSWER, 0]], "response_mask": [[1, 1, 0]],
        "input_ids": [[0, *PROMPT, *ANSWER, 0]], "attention_mask": [[0, 1, 1, 1, 1, 1, 0]],
        "position_ids": [[0, 0, 1, 2, 3, 4, 4]], "rollout_log_probs": [[*LOGPROBS, 0.0]],
        "rm_scores": [[0.0, reward, 0.0]],
    }  # fmt: skip
    texts = [{"prompt": "p", "answer": "Paris", "answer_plain": "Paris"}]
    return event("trajectory", form="verl", index=0, tensors=tensors, rows=rows, texts=texts)


def batch(*groups: dict[str, Any], kind: Any = "loop", prompts: int = 1, scored: Any = 1.0, log: str = "") -> Rolled:
    rolled = Rolled(Asked(kind, "a loop", prompts, 1, framework=VERL))
    rolled.events = [event("phase", name=name) for name in STARTED]
    rolled.events += [event("batch", asked=prompts, got=len(groups), seconds=1.0), *groups]
    rolled.engine = [engine_call()]
    rolled.notes = [{"event": "scored", "reward": rewards.describe(scored).as_dict()}]
    rolled.output.add(log.encode())
    return rolled


def judged(rolled: Rolled) -> dict[str, Finding]:
    return {finding.id: finding for finding in rules.judge(rolled, AGENT)}


def test_a_sound_batch_passes_all() -> None:
    found = judged(batch(group()))
    assert {one.status for one in found.values()} == {"pass"}
    assert set(found) >= {"verl.starts", "verl.batch", "verl.rewards", "verl.tensors", "verl.logprobs",
                          "verl.round-trip"}  # fmt: skip
    assert not any(id_.startswith("areal.") for id_ in found)


@pytest.mark.parametrize(
    ("spoil", "id_", "sentence"),
    [
        (lambda one: one["tensors"].pop("rm_scores"), "verl.tensors", "rm_scores missing"),
        (lambda one: one["tensors"].update(responses=tensor("float32", 1, 3)), "verl.tensors", "responses is float32"),
        (lambda one: one["tensors"].update(input_ids=tensor("int64", 1, 9)), "verl.tensors", "not 1×7"),
        (lambda one: one["rows"].update(response_mask=[[1, 1, 1]]), "verl.tensors", "counts padding"),
        (lambda one: one["rows"].update(response_mask=[[2, 1, 0]]), "verl.tensors", "other values than 0 and 1"),
        (lambda one: one["rows"].update(response_mask=[[1, 0, 0]]), "verl.loss-mask", "leaves out tokens"),
        (lambda one: one["rows"].update(rollout_log_probs=[["nan", -1.0, 0.0]]), "verl.logprobs", "nan"),
        (lambda one: one["rows"].update(input_ids=[[0, 1, 1, 1, *ANSWER, 0]]), "verl.round-trip", "no prompt and"),
        (lambda one: one["rows"].update(rollout_log_probs=[[-9.0, -9.0, 0.0]]), "verl.round-trip", "log-probs"),
        (lambda one: one["rows"].update(rm_scores=[[0.0, 0.5, 0.0]]), "verl.rewards", "not those that the function"),
    ],
)
def test_each_fault_is_named(spoil: Any, id_: str, sentence: str) -> None:
    one = deepcopy(group())
    spoil(one)
    found = judged(batch(one))
    assert found[id_].status == "fail"
    assert sentence in found[id_].detail


def test_an_answer_that_is_cut_at_the_response_length_is_still_its_call() -> None:
    rolled = batch(group())
    rolled.engine = [engine_call(answer=[*ANSWER, 3, 4], logprobs=[*LOGPROBS, -1.0, -1.0])]
    assert judged(rolled)["verl.round-trip"].status == "pass"


@pytest.mark.parametrize(
    ("value", "sentence"),
    [(None, "returned nothing"), ("1", "not a number"), (float("nan"), "nan"), ({"acc": 1.0}, "without score")],
)
def test_rewards_that_verl_cannot_take(value: Any, sentence: str) -> None:
    found = judged(batch(group(), scored=value))
    assert found["verl.rewards"].status == "fail"
    assert sentence in found["verl.rewards"].detail


@pytest.mark.parametrize("value", [1, True, {"score": 1.0, "acc": 1}])
def test_rewards_that_verl_takes(value: Any) -> None:
    assert judged(batch(group(), scored=value))["verl.rewards"].status == "pass"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("drydock_verl.NoCalls: the run made no call to the model", "no call"),
        ("NotImplementedError: Reward function is not implemented for data_source='mine'", "data_source mine"),
        ("KeyError: 'data_source'", "needs data_source"),
        ("AssertionError: Agent loop mine not registered, registered agent loops: …", "no agent loop mine"),
        ("RuntimeError: the inference server answered 400: too long", "answered 400: too long"),
        ("ValueError: something else", "ValueError: something else"),
    ],
)
def test_a_batch_that_is_not_whole_says_the_workers_reason(line: str, sentence: str) -> None:
    found = judged(batch(prompts=2, log=f"(Worker pid=3) Traceback\n{line}\n"))["verl.batch"]
    assert found.status == "fail"
    assert sentence in found.detail
    assert "drops its whole group" in found.consequence


@pytest.mark.parametrize("kept", [3, 4])
def test_what_the_data_set_left_out_is_said(kept: int) -> None:
    rolled = batch(group())
    rolled.events.append(event("data", given=4, kept=kept, put=[]))
    assert judged(rolled)["verl.data"].status == ("pass" if kept == 4 else "warn")


@pytest.mark.parametrize("place", ["custom_reward_function: {path: score.py}", "reward_model: {reward_manager: dapo}"])
def test_a_reward_that_nobody_reads_is_told(tmp_path: Path, place: str) -> None:
    (tmp_path / "train.yaml").write_text(f"{CONFIG}\n{place}\n")
    (found,) = verl_rules.unread(read(tmp_path / "train.yaml"))
    assert found.status == "fail"
    assert found.mend.startswith("reward.")
    (tmp_path / "train.yaml").write_text(f"{CONFIG}\nasync_training: {{staleness_threshold: 1}}\n{place}\n")
    assert not list(verl_rules.unread(read(tmp_path / "train.yaml")))


def want(tmp_path: Path, text: str = CONFIG, **flags: Any) -> Wanted:
    (tmp_path / "train.yaml").write_text(text)
    settings = load_settings({"config": "train.yaml", "verl_python": sys.executable, **flags}, environ={})
    return wanted(settings, [tmp_path])


def test_a_configuration_of_verls_is_run_by_verl(tmp_path: Path) -> None:
    found = want(tmp_path)
    assert (found.framework, found.kind, found.prompts, found.group_size) == (VERL, "agent", 16, 4)
    assert found.settings["actor_rollout_ref.rollout.agent.num_workers"] == 1


def test_the_reward_function_of_the_configuration_goes_with_verls_own_loop(tmp_path: Path) -> None:
    (tmp_path / "score.py").write_text("def score(**_): return 1.0\n")
    found = want(tmp_path, CONFIG + CUSTOM)
    assert found.kind == "loop"
    assert found.settings["reward.custom_reward_function.path"] == str(tmp_path / "score.py")
    # Who names an agent wants that.
    assert want(tmp_path, CONFIG + CUSTOM, agent="mine.py:Mine").kind == "agent"
    given = want(tmp_path, agent="mine.py:Mine", reward="score.py:score")
    assert given.kind == "loop"
    assert given.settings["reward.custom_reward_function.name"] == "score"


def test_the_served_model_stands_in_for_one_that_is_not_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MODEL_FOLDER, str(tmp_path))
    assert want(tmp_path).settings["actor_rollout_ref.model.path"] == str(tmp_path)
    (tmp_path / "weights").mkdir()
    there = CONFIG.replace("my/model", str(tmp_path / "weights"))
    assert "actor_rollout_ref.model.path" not in want(tmp_path, there).settings


def test_without_verl_it_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(LibraryMissing, match="verl"):
        want(tmp_path, verl_python=None)


def test_the_example_is_verls() -> None:
    settings = load_settings({"config": str(EXAMPLE), "verl_python": sys.executable}, environ={})
    found = wanted(settings, [EXAMPLE.parent])
    assert (found.kind, found.prompts, found.group_size) == ("agent", 8, 4)
