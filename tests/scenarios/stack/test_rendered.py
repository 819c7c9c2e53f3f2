"""What Compose makes of our files, without starting anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.models import ModelFiles
from harness.settings import load_settings
from harness.stack import rendering
from harness.stack.plan import make_plan

pytestmark = pytest.mark.docker


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("harness.settings.Settings.state_dir", property(lambda _: tmp_path / "state"))
    return tmp_path / "state"


def services(folder: Path, revision: str, **asked: str) -> dict[str, Any]:
    """The services as Compose would start them."""
    plan = make_plan(load_settings(environ={"PROJECT": "rendered", "MODEL": "qwen2.5-0.5b", **asked}))
    served = ModelFiles(folder, "/models", "/models", ("qwen2.5-0.5b",), "safetensors", revision, "hub", 10**9, 32768)
    values = rendering.variables(
        plan, dev_image="dev:1", inference_image=f"{revision}:1", served=served, keys=folder / "keys"
    )
    compose = rendering.compose_for(plan)
    rendering.write_devices(plan)
    rendering.write_env_file(compose.env_file, values)
    rendering.write_told(plan, values)
    found: dict[str, Any] = json.loads(compose.run("config", "--format", "json"))["services"]
    return found


def test_another_server_makes_no_other_container_of_those_that_people_work_in(state: Path, tmp_path: Path) -> None:
    before = services(tmp_path, "7ae5", WORKERS="1")
    told = (state / "told" / "stack.json").read_text()
    after = services(tmp_path, "c001", WORKERS="1", ENGINE="vllm", CONTEXT="1024", ENGINE_ARGS="--seed 1")
    assert before.pop("inference") != after.pop("inference")
    for name, service in before.items():
        changed = {
            key: (value, after[name].get(key)) for key, value in service.items() if value != after[name].get(key)
        }
        assert not changed, name
    assert set(after) >= {"dev", "ray-head", "ray-worker"}
    # And all the same a report from inside `dev` knows of the change.
    assert (state / "told" / "stack.json").read_text() != told
