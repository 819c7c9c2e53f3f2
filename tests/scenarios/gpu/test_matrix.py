"""What Compose would start on machines that nobody here has: GPUs × engine × framework, as reviewed snapshots.

After a change that is meant, write them anew and read the difference:

    DRYDOCK_SNAPSHOTS=write .venv/bin/pytest tests/scenarios/gpu/test_matrix.py && git diff tests/scenarios/gpu
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.models import ModelFiles
from harness.settings import load_settings
from harness.stack import rendering
from harness.stack.gpu.machine import Way
from harness.stack.images.catalogue import load_catalogue
from harness.stack.machines import worker
from harness.stack.plan import make_plan, with_gpus
from harness.stack.ray_ports import Ports
from tests.support.gpus import machine
from tests.support.harness import CLONE

SNAPSHOTS = Path(__file__).with_name("snapshots")
CATALOGUE = load_catalogue()
ENGINES = ("", "vllm", "sglang")
FRAMEWORKS = ("", *CATALOGUE.frameworks)
CONFIG = {"num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "hidden_size": 896}


def rendered(count: int, engine: str, framework: str, folder: Path) -> dict[str, Any]:
    """What matters of the configuration that Compose makes of our files, on a machine with so many GPUs."""
    asked = {"ENGINE": engine, "FRAMEWORK": framework, "MODEL": "qwen2.5-0.5b", "PROJECT": "matrix"}
    plan = with_gpus(make_plan(load_settings(environ=asked)), machine(count), CATALOGUE)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    served = ModelFiles(folder, "/models", "/models", ("qwen2.5-0.5b",), "safetensors", "7ae5", "hub", 10**9, 32768)
    ground = CATALOGUE.engine_image(plan.settings.engine, framework) if plan.gpus.inference else "the base"
    images = {
        "engine": f"{plan.settings.engine} on {CATALOGUE.lock.pinned(ground).replace('@sha256', ' @sha256')[:80]}",
        "dev and Ray nodes": CATALOGUE.framework_image(framework, plan.settings.engine) if framework else "the base",
        "who": plan.gpus.why or "no GPU",
    }
    if framework:
        return images  # nothing else of the configuration depends on it
    values = rendering.variables(
        plan, dev_image="dev:1", inference_image=f"{plan.settings.engine}:1", served=served, keys=folder
    )
    rendering.write_devices(plan)
    compose = rendering.compose_for(plan)
    rendering.write_env_file(compose.env_file, values)
    services = json.loads(compose.run("config", "--format", "json"))["services"]
    return {
        **images,
        **{name: _what_matters(services[name]) for name in ("inference", "ray-head", "dev")},
    }


def _what_matters(service: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"shm": int(service["shm_size"]) // 2**30}
    for device in service.get("deploy", {}).get("resources", {}).get("reservations", {}).get("devices", []):
        found["devices"] = f"{device['driver']} {','.join(device['device_ids'])} {','.join(device['capabilities'])}"
    found |= {f"ulimit {name}": value for name, value in service.get("ulimits", {}).items()}
    for name in ("ENGINE", "CONTEXT", "ENGINE_GPU_ARGS"):
        if service["environment"].get(name):
            found[name] = service["environment"][name]
    volumes = [volume["target"] for volume in service["volumes"] if volume["type"] == "volume"]
    return found | ({"volumes": " ".join(volumes)} if volumes else {})


@pytest.mark.parametrize("count", [0, 1, 2, 8])
def test_the_matrix_is_as_it_was_reviewed(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.settings.Settings.state_dir", property(lambda _: tmp_path / "state"))
    found = {}
    for engine in ENGINES:
        for framework in FRAMEWORKS:
            if engine == "sglang" and not count:
                continue  # refused: tests/unit/stack/gpu/test_split.py
            name = " ".join(
                filter(None, (f"ENGINE={engine}" * bool(engine), f"FRAMEWORK={framework}" * bool(framework)))
            )
            found[name or "without a wish"] = rendered(count, engine, framework, tmp_path)
    path = SNAPSHOTS / f"{count}-gpus.yaml"
    text = yaml.safe_dump(found, sort_keys=False, width=200)
    if os.environ.get("DRYDOCK_SNAPSHOTS") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert yaml.safe_load(path.read_text()) == found


@pytest.mark.parametrize("way", ["nvidia", "cdi"])
def test_a_node_on_another_machine_has_cards_and_limits_too(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.settings.Settings.state_dir", property(lambda _: tmp_path / "state"))
    settings = load_settings(environ={"PROJECT": "matrix"})

    def node(cards: tuple[str, ...]) -> dict[str, Any]:
        worker.write_devices(settings, cards, way)
        compose = worker.compose_for(settings)
        rendering.write_env_file(compose.env_file, worker.variables(settings, "10.0.0.1", Ports(6379), "dev:1"))
        services: dict[str, Any] = json.loads(compose.run("config", "--format", "json"))["services"]
        return _what_matters(services["node"])

    assert node(("0", "3")) == {
        "shm": 16,
        "devices": "nvidia 0,3 gpu" if way == "nvidia" else "cdi nvidia.com/gpu=0,nvidia.com/gpu=3 cdi",
        "ulimit memlock": -1,
        "ulimit stack": 67108864,
    }
    assert node(()) == {"shm": 1}


def test_no_overlay_uses_what_old_compose_ignores() -> None:
    for path in (CLONE / "docker" / "compose").glob("*.yaml"):
        for service in yaml.safe_load(path.read_text())["services"].values():
            assert "gpus" not in (service or {}), path
