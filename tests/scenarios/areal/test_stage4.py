"""Stage 4 with AReaL's real controller, workers and proxy; only the model is a stand-in. Each start takes a minute."""

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

AGENTS = Path(__file__).parent / "agents.py"
CONFIG = """
experiment_name: check
trial_name: trial0
actor: {{path: {model}, optimizer: {{nothing: "that AReaL knows"}}}}
rollout:
  backend: vllm:d1
  tokenizer_path: ${{actor.path}}
  max_concurrent_rollouts: 8
  max_head_offpolicyness: {off}
  consumer_batch_size: {consumer}
gconfig: {{n_samples: 2, max_new_tokens: 16}}
scheduler: {{type: local}}
train_dataset: {{batch_size: 4}}
"""


@dataclass
class Stage4:
    """Calls the command in a folder of its own."""

    folder: Path
    engine: TokenEngine
    base_url: str

    def __call__(self, agent: str, *arguments: str, off: int = 2, consumer: int = 4) -> dict[str, dict[str, Any]]:
        """Findings by their id."""
        model = self.folder / "model"
        (self.folder / "train.yaml").write_text(CONFIG.format(model=model, off=off, consumer=consumer))
        kept = {name: value for name, value in os.environ.items() if name not in ("JSON", "AGENT", "DATA", "STAGE")}
        done = subprocess.run(
            [str(HARNESS), "check", "--here", "--stage", "4", "--config", "train.yaml", "--data", "data.jsonl",
             "--agent", f"{AGENTS}:{agent}", *arguments],
            cwd=self.folder,
            env={**kept, "OPENAI_BASE_URL": self.base_url, "OPENAI_API_KEY": KEY, "RUNS": str(self.folder / "runs"),
                 "DRYDOCK_HOME": str(self.folder), "AREAL_PYTHON": str(locked_python("areal"))},
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
        report = json.loads((self.folder / "runs/latest/result.json").read_text())
        found = {finding["id"]: finding for stage in report["stages"] for finding in stage["findings"]}
        failed = any(finding["status"] == "fail" for finding in found.values())
        assert done.returncode == int(failed), done.stdout + done.stderr
        nothing_left()
        return found


def nothing_left() -> None:
    """No worker of AReaL, and no shell or tee around one, is there any more."""
    left = [one.info["cmdline"] for one in psutil.process_iter(["cmdline"]) if "drydock-areal-" in str(one.info)]
    assert not left


@pytest.fixture
def stage4(tmp_path: Path) -> Iterator[Stage4]:
    sample = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "answer": "Paris"}
    (tmp_path / "data.jsonl").write_text(f"{json.dumps(sample)}\n" * 4)
    write_folder(tmp_path / "model")
    engine = TokenEngine()
    with engine.serving() as base_url:
        yield Stage4(tmp_path, engine, base_url)


def test_a_sound_agent_passes_and_its_recording_replays_without_areal(stage4: Stage4) -> None:
    found = stage4("Sound", "--record", "tape")
    assert {id_ for id_, one in found.items() if one["status"] == "fail"} == set()
    assert found["areal.batch"]["facts"]["got"] == 4
    assert found["areal.round-trip"]["status"] == "pass"
    assert "8 as the agent returned them" in found["areal.rewards"]["detail"]
    kept = {name: value for name, value in os.environ.items() if name not in ("OPENAI_BASE_URL", "JSON", "STAGE")}
    done = subprocess.run(
        [str(HARNESS), "check", "--here", "--stage", "3", "--replay", "tape", "--agent", f"{AGENTS}:Sound"],
        cwd=stage4.folder,
        env={**kept, "RUNS": str(stage4.folder / "runs"), "DRYDOCK_HOME": str(stage4.folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "8 of 8 runs ended as recorded, with the same reward" in done.stdout


def test_an_int_as_reward_comes_back_as_nothing_and_says_why(stage4: Stage4) -> None:
    found = stage4("ReturnsAnInt")
    assert "0 of 4 came back" in found["areal.batch"]["detail"]
    assert "int" in found["areal.batch"]["detail"]
    assert "1 is an int, not a float" in found["areal.rewards"]["detail"]


def test_an_agent_that_raises_in_areals_worker_is_shown_with_its_line(stage4: Stage4) -> None:
    found = stage4("Raises")
    assert "8 of 8 runs raised: KeyError: 'solution'" in found["areal.agent-raises"]["detail"]
    assert found["areal.agent-raises"]["place"]["source"] == 'return float(data["solution"] == "")'


def test_a_batch_that_may_never_come_is_called_staleness(stage4: Stage4) -> None:
    found = stage4("Sound", off=0, consumer=2)
    assert found["areal.stalls"]["facts"]["cause"] == "staleness"
    assert found["lint.areal-staleness"]["status"] == "fail"


def test_a_server_that_dies_in_the_middle_is_named(stage4: Stage4) -> None:
    stage4.engine.dies_after = 2
    found = stage4("Sound", "--timeout", "60")
    assert "the inference server went away" in found["areal.batch"]["detail"]
