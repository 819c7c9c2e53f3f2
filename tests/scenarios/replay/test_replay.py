"""Record with a model, replay without one: same calls, same rewards, whatever library makes the calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.checks.conftest import Checked, Checker
from tests.scenarios.checks.conftest import check as check

HERE = Path(__file__).parent
AGENTS = HERE / "agents.py"


def record(check: Checker, agent: str, *arguments: str) -> Checked:
    return run(check, agent, "--record", str(check.folder / "tape"), *arguments)


def replay(check: Checker, agent: str, *arguments: str) -> Checked:
    """Replay with a model that answers differently, so that whoever asks it is found out."""
    check.model.text = "nobody may hear this"
    check.model.requests.clear()
    done = run(check, agent, "--replay", str(check.folder / "tape"), *arguments)
    assert check.model.requests == []
    return done


def run(check: Checker, agent: str, *arguments: str) -> Checked:
    return check.command_here("--stage", "2", "--agent", f"{AGENTS}:{agent}", *arguments)


def reward(done: Checked) -> Any:
    return done.findings["run.reward"]["facts"]


INSIDE = ["AsyncSdk", "AsyncSdkOfItsOwn", "Streams", "SyncSdk", "BareHttpx", "AnthropicSdk", "Responses", "Many"]
OUTSIDE = ["Aiohttp", "Urllib", "InASubprocess", "InAFork", "Mixed"]


@pytest.mark.parametrize("agent", [*INSIDE, *OUTSIDE])
def test_a_run_is_replayed_with_the_same_reward(check: Checker, agent: str) -> None:
    recorded = record(check, agent)
    assert recorded.code == 0, str(recorded)
    for _ in range(2 if agent in ("Many", "Mixed") else 1):
        done = replay(check, agent)
        assert done.code == 0, str(done)
        assert reward(done) == reward(recorded)
        assert done.findings["replay.reward"]["status"] == "pass", str(done)
        assert done.findings["replay.calls"]["status"] == "pass", str(done)
        assert len(json.loads(json.dumps(done.report["stages"]))) == 1
