"""Stage 4 ends what it has started, whatever ends it; a program that sleeps stands in for AReaL."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.checks.stage4 import gather as gathering
from harness.checks.stage4.data import Asked, Rolled
from harness.checks.stage4.gather import Gathered, gather
from harness.checks.stage4.job import Setup
from harness.openai_api.http import Endpoint
from tests.support.harness import HARNESS

# Starts a child that would outlive it, as AReaL's scheduler does with its workers, and says so.
SLEEPER = """#!/bin/sh
sleep 1000 &
echo $! > {folder}/child
echo $$ > {folder}/driver
exec sleep 1000
"""
CONFIG = """
experiment_name: e
trial_name: t
rollout: {backend: "vllm:d1", tokenizer_path: /nowhere}
gconfig: {n_samples: 1}
scheduler: {type: local}
train_dataset: {batch_size: 1}
"""


@pytest.fixture
def sleeper(tmp_path: Path) -> Path:
    program = tmp_path / "python"
    program.write_text(SLEEPER.format(folder=tmp_path))
    program.chmod(0o755)
    return program


def both(folder: Path) -> list[int]:
    """The processes, once they have said who they are."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        files = [folder / "driver", folder / "child"]
        if all(file.exists() and file.read_text().strip() for file in files):
            return [int(file.read_text()) for file in files]
        time.sleep(0.05)
    raise AssertionError("the stand-in for AReaL didn't start")


def gone(pids: list[int]) -> bool:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        alive = [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]
        if not alive:
            return True
        time.sleep(0.05)
    return False


def test_a_stage_that_is_broken_off_leaves_nobody(sleeper: Path) -> None:
    folder = sleeper.parent
    gathered = Gathered(Rolled(Asked("rlvr", "f", 1, 1)))
    setup = Setup(
        str(sleeper), folder / "train.yaml", {}, gathered.rolled.asked, (), Endpoint("http://127.0.0.1:9/v1", ""), None
    )

    async def broken_off() -> list[int]:
        task = asyncio.ensure_future(gather(setup, gathered, tell=lambda _rolled: None))
        pids = await asyncio.to_thread(both, folder)
        task.cancel()
        await asyncio.wait({task}, timeout=30)
        return pids

    assert gone(asyncio.run(broken_off()))
    assert gathered.rolled.exit_status == -signal.SIGKILL


def test_a_signal_that_hits_the_start_of_waiting_leaves_nobody(sleeper: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal's exception is then the result of waiting, and the driver lives all the same."""
    begin = gathering._Driver.__init__

    def hit(self: Any, *arguments: Any) -> None:
        begin(self, *arguments)
        self.exited.cancel()
        self.exited = asyncio.get_running_loop().create_future()
        self.exited.set_exception(RuntimeError("the signal"))

    monkeypatch.setattr(gathering._Driver, "__init__", hit)
    folder = sleeper.parent
    gathered = Gathered(Rolled(Asked("rlvr", "f", 1, 1)))
    setup = Setup(
        str(sleeper), folder / "train.yaml", {}, gathered.rolled.asked, (), Endpoint("http://127.0.0.1:9/v1", ""), None
    )
    asyncio.run(asyncio.wait_for(gather(setup, gathered, tell=lambda _rolled: None), 60))
    assert gathered.rolled.exit_status == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_command_ends_it_and_all_that_it_started(
    sleeper: Path, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.support.token_engine import KEY, TokenEngine

    folder = sleeper.parent
    (folder / "train.yaml").write_text(CONFIG)
    (folder / "data.jsonl").write_text('{"messages": [], "answer": "x"}\n')
    (folder / "a.py").write_text("class A:\n    async def run(self, data, **kwargs):\n        return 1.0\n")
    monkeypatch.delenv("JSON", raising=False)
    with TokenEngine().serving() as base_url:
        command = subprocess.Popen(
            [str(HARNESS), "check", "--here", "--stage", "4", "--config", "train.yaml", "--data", "data.jsonl",
             "--agent", "a.py:A", "--areal-python", str(sleeper)],
            cwd=folder,
            env={**os.environ, "OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": KEY, "RUNS": str(folder / "runs"),
                 "DRYDOCK_HOME": str(folder)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip
        pids = both(folder)
        command.send_signal(number)
        code = command.wait(60)
    assert gone(pids)
    assert code == (143 if number is signal.SIGTERM else 130)
