"""Stage 4 with verl's real manager, workers, agent loops and Ray; only the model is a stand-in."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.harness import HARNESS
from tests.support.locked_python import locked_python
from tests.support.tiny_model import write_folder
from tests.support.token_engine import KEY, TokenEngine

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

HERE = Path(__file__).parent
CONFIG = """
actor_rollout_ref:
  model: {{path: {model}}}
  rollout: {{name: vllm, n: 2, prompt_length: 128, response_length: 64}}
data: {{train_batch_size: 4, prompt_key: messages}}
trainer: {{logger: ["console", "nothing that is there"]}}
"""


@dataclass
class Stage4:
    """Calls the command in a folder of its own."""

    folder: Path
    engine: TokenEngine
    base_url: str

    def __call__(self, *arguments: str, agent: str = "Sound", config: str = "") -> dict[str, dict[str, Any]]:
        """Findings by their id."""
        (self.folder / "train.yaml").write_text(CONFIG.format(model=self.folder / "model") + config)
        done = self.run("--stage", "4", "--config", "train.yaml", "--data", "data.jsonl",
                        "--agent", f"{HERE}/agents.py:{agent}", *arguments)  # fmt: skip
        report = json.loads((self.folder / "runs/latest/result.json").read_text())
        found = {finding["id"]: finding for stage in report["stages"] for finding in stage["findings"]}
        failed = any(finding["status"] == "fail" for finding in found.values())
        assert done.returncode == int(failed), done.stdout + done.stderr
        nothing_left()
        return found

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if name not in ("JSON", "AGENT", "DATA", "STAGE")}
        return subprocess.run(
            [str(HARNESS), "check", "--here", *arguments],
            cwd=self.folder,
            env={**kept, "OPENAI_BASE_URL": self.base_url, "OPENAI_API_KEY": KEY, "RUNS": str(self.folder / "runs"),
                 "DRYDOCK_HOME": str(self.folder), "VERL_PYTHON": verl_python()},
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip


def verl_python() -> str:
    """An interpreter that has verl: the one that is named, or one from the lock."""
    return os.environ.get("VERL_PYTHON") or str(locked_python("verl"))


def nothing_left() -> None:
    """No process of the Ray that was there for one check is there any more."""
    left = [one.info["cmdline"] for one in psutil.process_iter(["cmdline"]) if "drydock-verl-" in str(one.info)]
    assert not left


@pytest.fixture
def stage4(tmp_path: Path) -> Iterator[Stage4]:
    sample = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "answer": "Paris"}
    (tmp_path / "data.jsonl").write_text(f"{json.dumps(sample)}\n" * 4)
    write_folder(tmp_path / "model")
    engine = TokenEngine()
    with engine.serving() as base_url:
        yield Stage4(tmp_path, engine, base_url)


def test_an_agent_passes_in_verls_agent_loop_and_its_recording_replays_without_verl(stage4: Stage4) -> None:
    found = stage4("--record", "tape")
    assert {id_ for id_, one in found.items() if one["status"] == "fail"} == set()
    assert found["verl.batch"]["facts"]["got"] == 4
    assert found["verl.round-trip"]["status"] == "pass"
    assert "8 as the agent returned them; mean 1.000" in found["verl.rewards"]["detail"]
    assert found["verl.calls"]["detail"] == "16, all answered"
    done = stage4.run("--stage", "3", "--replay", "tape", "--agent", f"{HERE}/agents.py:Sound")
    assert "8 of 8 runs ended as recorded, with the same reward" in done.stdout


def test_a_reward_function_gets_what_verls_single_turn_loop_made(stage4: Stage4) -> None:
    found = stage4("--reward", f"{HERE}/agents.py:compute_score")
    assert {id_ for id_, one in found.items() if one["status"] == "fail"} == set()
    assert "8 as the function returned them; mean 0.500" in found["verl.rewards"]["detail"]
    assert "reward_model.ground_truth from answer" in found["verl.data"]["detail"]
    assert sum(body["max_tokens"] == 64 for body in stage4.engine.asked) == 8


def test_a_reward_function_without_a_return_is_found(stage4: Stage4) -> None:
    found = stage4("--reward", f"{HERE}/agents.py:nothing")
    assert "returned nothing" in found["verl.rewards"]["detail"]
    assert "rm_scores missing" in found["verl.tensors"]["detail"]


def test_an_agent_that_raises_is_shown_with_its_line(stage4: Stage4) -> None:
    found = stage4(agent="Raises")
    assert "8 of 8 runs raised: KeyError: 'solution'" in found["verl.agent-raises"]["detail"]
    assert found["verl.agent-raises"]["place"]["source"] == 'return float(data["solution"] == "")'
    assert "0 of 4 came back" in found["verl.batch"]["detail"]


def test_a_history_that_is_not_added_to_is_no_sequence_for_verl(stage4: Stage4) -> None:
    found = stage4(agent="Rewrites")
    assert "doesn't go on from the one before" in found["verl.batch"]["detail"]


def test_a_server_that_dies_in_the_middle_is_named(stage4: Stage4) -> None:
    stage4.engine.dies_after = 2
    found = stage4("--timeout", "60")
    assert "the inference server" in found["verl.batch"]["detail"]


def test_a_configuration_with_defaults_is_composed_as_hydra_does(stage4: Stage4) -> None:
    found = stage4(config="defaults: [ppo_trainer, _self_]\nno_section_of_verls: 1\n")
    assert {id_ for id_, one in found.items() if one["status"] == "fail"} == set()
    assert found["verl.config"]["facts"]["response_length"] == 64
