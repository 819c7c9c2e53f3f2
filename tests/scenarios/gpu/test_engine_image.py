"""The image of an engine on GPUs, built on a stand-in for the engine project's own: the gateway starts the engine."""

from __future__ import annotations

import io
import json
import tarfile
import uuid
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from harness import docker_engine, engines
from harness.settings import load_settings
from harness.stack.images import BuiltImage, ensure_base_image
from harness.stack.images.build import Recipe, build
from harness.stack.images.catalogue import load_catalogue
from harness.stack.images.context import entries_for
from harness.stack.images.host_config import read_host_config

pytestmark = pytest.mark.slow  # a build with the gateway's packages

# In the place of both engines: says how it was called, where it may write, and ends.
ENGINE = """\
import json, os, sys
open("/cache/compiled", "w").write("x")
print("STARTED", json.dumps([sys.argv[1:], os.environ["HOME"], os.environ.get("HF_HUB_OFFLINE")]), flush=True)
sys.exit(3)
"""


@pytest.fixture(scope="module")
def stand_in() -> Iterator[BuiltImage]:
    """Our own base with modules of the engines' names on its system Python."""
    client = docker_engine.connect()
    base = ensure_base_image(client, load_settings(environ={}))
    name = f"stand-in-{uuid.uuid4().hex[:8]}:1"
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        dockerfile = f"FROM {base.reference}\nCOPY engines /usr/lib/python3/dist-packages\nUSER 4242\n"
        files = {"Dockerfile": dockerfile}
        for module in ("vllm/entrypoints/cli/main.py", "sglang/launch_server.py"):
            parts = module.split("/")
            files |= {f"engines/{'/'.join(parts[:n])}/__init__.py": "" for n in range(1, len(parts))}
            files[f"engines/{module}"] = ENGINE
        for path, text in files.items():
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(text), 0o644
            archive.addfile(member, io.BytesIO(text.encode()))
    tar.seek(0)
    image, _ = client.images.build(fileobj=tar, custom_context=True, tag=name, rm=True)
    yield BuiltImage(name, str(image.id), fresh=True)
    client.images.remove(name, force=True)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_gateway_starts_the_engine_of_the_projects_own_image(
    stand_in: BuiltImage, engine: str, tmp_path: Path
) -> None:
    client: Any = docker_engine.connect()
    settings = load_settings({"namespace": f"test-{uuid.uuid4().hex[:8]}"}, environ={})
    catalogue = load_catalogue()
    entries = entries_for(catalogue, catalogue.images["gpu-engine"])
    recipe = Recipe("gpu-engine", stand_in.reference, stand_in.id, entries, {"ENGINE": engine})
    built = build(client, settings, recipe, read_host_config(settings), [], f"{engine} on a stand-in")
    (tmp_path / "api_key").write_text("k")
    (tmp_path / "api_key").chmod(0o644)
    environment = {
        "ENGINE_START": json.dumps(asdict(engines.load(engine).start)),
        "MODEL_PATH": "/models",
        "MODEL_NAMES": json.dumps(["q"]),
        "ENGINE_GPU_ARGS": "--first 1",
        "ENGINE_ARGS": "--last 2",
        "CONTEXT": "4096",
    }
    try:
        container = client.containers.run(
            built.reference,
            detach=True,
            user="12345:12345",
            network_mode="none",
            environment=environment,
            volumes={str(tmp_path / "api_key"): {"bind": "/run/secrets/api_key", "mode": "ro"}},
        )
        try:
            ended = container.wait(timeout=60)
            log = container.logs().decode()
        finally:
            container.remove(force=True, v=True)
    finally:
        client.images.remove(built.reference, force=True)
    assert ended["StatusCode"] != 0, log
    line = next((line for line in log.splitlines() if line.startswith("STARTED ")), None)
    assert line, log
    words, home, offline = json.loads(line.removeprefix("STARTED "))
    assert (home, offline) == ("/cache", "1")
    assert words[-4:] == ["--first", "1", "--last", "2"]
    assert "4096" in words
    assert "/models" in words
