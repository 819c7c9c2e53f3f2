"""Other people's agents, as they are published in AReaL's package, pass unchanged and without a false word.

Their files are taken as they are. Only ``areal.api`` is ours, since the real one brings a whole trainer: all they want
of it is a wrapper that calls a reward function.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_model import FakeModel
from tests.support.harness import CLONE
from tests.support.locked_python import locked_python

# Making the environment takes longer than all tests of the folder beside it.
pytestmark = pytest.mark.slow

API = '''"""Stands for AReaL's own, which runs the function in a pool of processes."""


class AsyncRewardWrapper:
    def __init__(self, reward_fn, **options):
        self._reward_fn = reward_fn

    async def __call__(self, *args, **kwargs):
        return self._reward_fn(*args, **kwargs)
'''
SAMPLE = {"messages": [{"role": "user", "content": "What is 2 + 2?"}], "answer": "$4$"}

AGENTS = [
    ("openai", "MathAgent", 1),  # one call of the plain SDK
    ("openai", "MultiTurnMathAgent", 8),  # a plain loop; it gives up after eight turns
    ("openai", "MathToolAgent", 1),  # openai-agents, with tools and a session
    ("langchain", "MathAgent", 1),  # LangChain's chat model
    ("langchain", "MathToolAgent", 1),  # an agent with tools on LangGraph
]


@pytest.fixture(scope="module")
def python() -> Path:
    return locked_python("agents")


@pytest.fixture
def project(python: Path, tmp_path: Path) -> Path:
    """A folder with the published files and our stand-in beside them."""
    (workflows,) = python.parents[1].glob("lib/python*/site-packages/areal/workflow")
    for published in workflows.glob("*/math_agent.py"):
        shutil.copyfile(published, tmp_path / f"{published.parent.name}_math_agent.py")
    (tmp_path / "areal").mkdir()
    (tmp_path / "areal" / "__init__.py").touch()
    (tmp_path / "areal" / "api.py").write_text(API)
    (tmp_path / "data.jsonl").write_text(json.dumps(SAMPLE) + "\n")
    return tmp_path


def call(python: Path, project: Path, base_url: str, key: str, *arguments: str) -> Any:
    environment = {name: value for name, value in os.environ.items() if name not in ("JSON", "AGENT", "DATA", "STAGE")}
    environment |= {
        "PYTHONPATH": str(CLONE),
        "DRYDOCK_HOME": str(project),
        "RUNS": str(project / "runs"),
        "OPENAI_BASE_URL": base_url,
        "OPENAI_API_KEY": key,
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
    }
    done = subprocess.run(
        [str(python), "-m", "harness.cli.entry", *arguments, "--json"],
        cwd=project, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize(("package", "name", "calls"), AGENTS)
def test_a_published_agent_gets_no_false_finding(
    python: Path, project: Path, package: str, name: str, calls: int
) -> None:
    # The model's name is the agents' own, as AReaL's proxy takes any.
    model = FakeModel(text="I don't know.", ignoring={"unknown-model"})
    agent = f"{package}_math_agent.py:{name}"
    with model.serving() as base_url:
        arguments = ("check", "--here", "--stage", "2", "--agent", agent, "--data", "data.jsonl")
        report = call(python, project, base_url, model.key, *arguments)
    (stage,) = report["stages"]
    wrong = {finding["id"]: finding for finding in stage["findings"] if finding["status"] != "pass"}
    assert wrong == {}
    assert stage["figures"]["calls"] == calls
    assert len([path for path, _ in model.requests if path != "/v1/models"]) == calls
