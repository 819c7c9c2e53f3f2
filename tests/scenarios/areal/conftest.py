"""Calls stage 4 with AReaL's real controller, workers and proxy; only the model is a stand-in."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.harness import HARNESS
from tests.support.locked_python import locked_python
from tests.support.tiny_model import write_folder
from tests.support.token_engine import KEY, TokenEngine

AGENTS = Path(__file__).parent / "agents.py"
SAMPLE = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "answer": "Paris"}


@dataclass
class Stage4:
    """Calls the command in a folder of its own.

    Args:
        config: the training configuration; JSON is YAML.
        base_url: of the model; empty where there is no server any more.
    """

    folder: Path
    engine: TokenEngine
    base_url: str
    config: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.config = {
            "experiment_name": "check",
            "trial_name": "trial0",
            "actor": {"path": str(self.folder / "model"), "optimizer": {"nothing": "that AReaL knows"}},
            "rollout": {
                "backend": "vllm:d1",
                "tokenizer_path": "${actor.path}",
                "max_concurrent_rollouts": 8,
                "max_head_offpolicyness": 2,
                "consumer_batch_size": 4,
            },
            "gconfig": {"n_samples": 2, "max_new_tokens": 16},
            "scheduler": {"type": "local"},
            "train_dataset": {"batch_size": 4},
        }
        self.temporary.mkdir()
        self.samples([SAMPLE] * 4)

    def samples(self, samples: list[dict[str, Any]]) -> None:
        """The data set."""
        (self.folder / "data.jsonl").write_text("".join(f"{json.dumps(sample)}\n" for sample in samples))

    def __call__(self, agent: str = "Sound", *arguments: str, **more: str) -> dict[str, dict[str, Any]]:
        """Findings by their id."""
        done = self.run(*self.arguments(agent), *arguments, **more)
        return self.findings(done)

    def arguments(self, agent: str) -> list[str]:
        """Of a stage 4; writes the configuration."""
        (self.folder / "train.yaml").write_text(json.dumps(self.config))
        name = agent if ":" in agent else f"{AGENTS}:{agent}"
        return ["--stage", "4", "--config", "train.yaml", "--data", "data.jsonl", "--agent", name]

    def findings(self, done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
        """What the last report says."""
        report = json.loads((self.folder / "runs/latest/result.json").read_text())
        found = {finding["id"]: finding for stage in report["stages"] for finding in stage["findings"]}
        failed = any(finding["status"] == "fail" for finding in found.values())
        assert done.returncode == int(failed), done.stdout + done.stderr
        self.nothing_left()
        return found

    def run(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """`harness check`, here."""
        return subprocess.run(
            [str(HARNESS), "check", "--here", *arguments],
            cwd=self.folder,
            env=self.environment() | more,
            capture_output=True,
            text=True,
            check=False,
        )

    def settled(self) -> None:
        """Wait for the last of AReaL's processes, which ends by itself where the command was killed."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and list(self.temporary.glob("drydock-*")):
            time.sleep(0.1)

    def nothing_left(self) -> None:
        """No worker of AReaL, and no shell or tee around one, is there any more, and none of its files."""
        left = [one.info["cmdline"] for one in psutil.process_iter(["cmdline"]) if str(self.temporary) in str(one.info)]
        assert not left
        assert not list(self.temporary.glob("drydock-*"))

    @property
    def temporary(self) -> Path:
        """Where AReaL's files are while it runs; in its processes' command lines, too."""
        return self.folder / "tmp"

    def environment(self) -> dict[str, str]:
        """Of the command."""
        ours = ("JSON", "AGENT", "DATA", "STAGE", "OPENAI_BASE_URL", "OPENAI_API_KEY")
        kept = {name: value for name, value in os.environ.items() if name not in ours}
        named = {"OPENAI_BASE_URL": self.base_url, "OPENAI_API_KEY": KEY} if self.base_url else {}
        return {**kept, **named, "RUNS": str(self.folder / "runs"), "DRYDOCK_HOME": str(self.folder),
                "AREAL_PYTHON": areal_python(), "TMPDIR": str(self.temporary)}  # fmt: skip


def areal_python() -> str:
    """An interpreter that has AReaL: the one that is named, or one from the lock."""
    return os.environ.get("AREAL_PYTHON") or str(locked_python("areal"))


@contextmanager
def serving(folder: Path) -> Iterator[Stage4]:
    """A model's folder and a server."""
    write_folder(folder / "model")
    engine = TokenEngine()
    with engine.serving() as base_url:
        yield Stage4(folder, engine, base_url)


@pytest.fixture
def stage4(tmp_path: Path) -> Iterator[Stage4]:
    with serving(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Stage4, dict[str, dict[str, Any]]]:
    """A sound batch, recorded as ``tape``; the server has gone since."""
    with serving(tmp_path_factory.mktemp("recorded")) as found:
        findings = found("Sound", "--record", "tape")
    found.base_url = ""
    return found, findings
