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

from harness.breakpoints import attach, decide, started
from harness.breakpoints.model import Worker
from harness.dap.model import Breakpoint
from tests.support.harness import HARNESS, wait_for
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
        return subprocess.run(
            [str(HARNESS), "check", "--here", *arguments],
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )

    def environment(self) -> dict[str, str]:
        """For the command."""
        kept = {name: value for name, value in os.environ.items() if name not in ("JSON", "AGENT", "DATA", "STAGE")}
        return {**kept, "OPENAI_BASE_URL": self.base_url, "OPENAI_API_KEY": KEY, "RUNS": str(self.folder / "runs"),
                "DRYDOCK_HOME": str(self.folder), "VERL_PYTHON": verl_python()}  # fmt: skip


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


def test_break_holds_verls_worker_and_stops_inside_the_agent(stage4: Stage4) -> None:
    agents = HERE / "agents.py"
    line = next(n for n, text in enumerate(agents.read_text().splitlines(), 1) if "return float(" in text)
    (stage4.folder / "train.yaml").write_text(CONFIG.format(model=stage4.folder / "model"))
    command = subprocess.Popen(
        [str(HARNESS), "check", "--here", "--stage", "4", "--config", "train.yaml", "--data", "data.jsonl",
         "--agent", f"{agents}:Sound"],
        cwd=stage4.folder, env=stage4.environment() | {"BREAK": "1"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    try:
        (worker,) = wait_for("the worker to wait", lambda: waiting_for_a_debugger(command), 300)
        (paused,) = decide.paused([worker], {})
        assert (Path(paused.file).name, worker.debugger_port) == ("drydock_verl_parts.py", 5688)
        held = attach.held(paused)
        held.add(Breakpoint(str(agents), line))
        held.go("continue")
        stop = held.session.wait_for_stop(timeout=300)
        frame = held.session.stack(stop.thread)[0]
        assert (Path(frame.file or "").name, frame.line) == (agents.name, line)
        assert held.session.evaluate("data['answer']", frame.id) == "'Paris'"
        held.session.detach()
        out, _ = command.communicate(timeout=600)
    finally:
        command.kill()
        command.wait()
    assert command.returncode == 0, out
    nothing_left()


def waiting_for_a_debugger(command: subprocess.Popen[str]) -> list[Worker]:
    """The check's own worker, once it waits for one."""
    assert command.poll() is None, command.communicate()
    return [one for one in started.processes() if one.debugger_port == 5688]
