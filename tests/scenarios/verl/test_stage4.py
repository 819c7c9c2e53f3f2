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
