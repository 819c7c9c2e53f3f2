"""One more inference engine is one more file: `up` builds its image, the gateway starts it, tokens flow."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.harness import CLONE, Stack, docker, free_port, own_project

pytestmark = [pytest.mark.docker, pytest.mark.slow]  # images are built for it

# llama.cpp with two slots instead of all, from the same recipe.
ENGINE = """
title: llama.cpp in two slots
weights: gguf
memory_gb: 0.7
start:
  command: ["{python}", /opt/drydock/llamacpp_server.py, --model, "{model}", --alias, "{name}", --slots, 2,
            --port, "{port}", --context, "{context}", --threads, "{threads}"]
  environment: { SAID_BY: its file }
  counters: ["llamacpp:n_decode_total"]
  distributions: [xllamacpp]
cpu:
  image: { folder: docker/llamacpp, locks: [llamacpp, gateway, tools], contexts: { gateway: docker/gateway } }
"""


class CopiedStack(Stack):
    """A stack of a copy of the clone."""

    def key(self, name: str = "api_key") -> str:
        return (self.folder / ".drydock" / self.project / "secrets" / name).read_text().strip()


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[CopiedStack]:
    copy = tmp_path / "clone"
    for folder in ("harness", "docker", "examples"):
        shutil.copytree(CLONE / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("compose.yaml", "pyproject.toml"):
        shutil.copy(CLONE / file, copy / file)
    (copy / "harness/engines/twoslots.yaml").write_text(ENGINE)
    settings = {
        "PYTHONPATH": str(copy), "DRYDOCK_HOME": str(copy), "ENGINE": "twoslots", "THREADS": "1",
        "PORT": str(free_port()), "DASHBOARD_PORT": str(free_port()),
    }  # fmt: skip
    made = CopiedStack(own_project("one-more"), copy, settings)
    yield made
    made.run("down").ok()
    ours = f"label=com.docker.compose.project={made.project}"
    for volume in docker("volume", "ls", "-q", "--filter", ours).split():
        docker("volume", "rm", volume)
    for image in docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "*/twoslots").split():
        docker("image", "rm", image)


def test_an_engine_that_only_its_file_describes(stack: CopiedStack) -> None:
    stack.run("up").ok()
    answer = stack.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "Where?"}], "max_tokens": 8})
    assert answer["choices"][0]["message"]["content"]
    inside = json.loads(docker("inspect", stack.container("inference")))[0]
    assert "/twoslots:" in inside["Config"]["Image"]
    [engine] = [row for row in docker("top", inside["Id"], "-eo", "pid,args").splitlines() if "llamacpp_server" in row]
    assert "--slots 2" in engine
    pid = stack.execute("inference", "sh", "-c", "grep -lzs SAID_BY=its /proc/[0-9]*/environ || true").split()
    assert pid, "its environment is set"
    # What else asks about an engine knows it as well.
    found = stack.run("doctor", "--topic", "settings,stack,disk,machine", "--json")
    assert found.code in (0, 1), found
    assert not [one for one in found.json()["findings"] if "failed itself" in one["text"]]
    assert any("ENGINE=twoslots" in one["text"] for one in found.json()["findings"])
    stack.run("check", "--stage", "1").ok()
    served = stack.run("hang-dump", "--json").json()["processes"]
    assert [one["role"] for one in served if one["container"].endswith("-inference-1")] == ["server", "server"], served
