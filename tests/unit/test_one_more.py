"""What CONTRIBUTING.md says of one more cause, check or engine: its files, put into a copy, are found by themselves."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CLONE = Path(__file__).parents[2]
SHOWN = re.findall(r"^```(?:python|yaml)\n# (\S+)\n(.*?)^```$", (CLONE / "CONTRIBUTING.md").read_text(), re.M | re.S)

# Rank 1 has stopped at a breakpoint that somebody left in the code.
STACKS = {
    "rank0.txt": """Process 11: python train.py
Thread 11 (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:3000)
    step (train.py:40)
    <module> (train.py:90)
""",
    "rank1.txt": """Process 12: python train.py
Thread 12 (idle): "MainThread"
    cmdloop (cmd.py:126)
    interaction (pdb.py:350)
    step (train.py:38)
    <module> (train.py:90)
""",
}
# What `up` would start on a machine with two cards, and what the gateway makes of it.
PLAN = """
import json, pathlib, sys
from gateway.config import load_config
from gateway.engines import command_of
from harness.models import ModelFiles
from harness.settings import load_settings
from harness.stack import rendering
from harness.stack.images.catalogue import load_catalogue
from harness.stack.plan import make_plan, with_gpus
from tests.support.gpus import machine

folder = pathlib.Path(sys.argv[1])
(folder / "config.json").write_text("{}")
(folder / "key").write_text("k")
settings = load_settings(environ={"ENGINE": "mine", "MODEL": "qwen2.5-0.5b", "PROJECT": "one-more"})
catalogue = load_catalogue()
plan = with_gpus(make_plan(settings), machine(2), catalogue)
served = ModelFiles(folder, "/models", "/models", ("qwen",), "safetensors", "7ae5", "hub", 10**9, 32768)
values = rendering.variables(plan, dev_image="dev:1", inference_image="mine:1", served=served, keys=folder)
names = ("ENGINE", "ENGINE_START", "ENGINE_GPU_ARGS", "MODEL_PATH", "MODEL_NAMES", "CONTEXT")
config = load_config({name: values[f"DRYDOCK_{name}"] for name in names} | {"API_KEY_FILE": str(folder / "key")})
print(json.dumps({"image": catalogue.engine_image("mine", None), "pulled": catalogue.pulled,
                  "command": command_of(config), "counters": config.start.counters}))
"""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with what CONTRIBUTING.md shows, file by file."""
    copy = tmp_path_factory.mktemp("clone")
    for folder in ("harness", "docker", "examples"):
        shutil.copytree(CLONE / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    assert len(SHOWN) == 3
    for path, text in SHOWN:
        assert not (CLONE / path).exists(), f"{path} is there already: CONTRIBUTING.md has to show another one"
        (copy / path).write_text(text)
    return copy


def run(clone: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    # The copy's harness, not the one that this interpreter has installed; what a test needs beside it is the clone's.
    paths = os.pathsep.join(map(str, (clone, clone / "docker/gateway", CLONE)))
    told = {name: value for name, value in os.environ.items() if name != "PYTHONIOENCODING"}
    told |= {"PYTHONPATH": paths, "DRYDOCK_HOME": str(clone), "RUNS": str(clone / "runs"), **environment}
    return subprocess.run(
        [sys.executable, *command], cwd=clone, env=told, capture_output=True, text=True, check=False, timeout=120
    )


def document(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def test_a_cause_of_hangs(clone: Path, tmp_path: Path) -> None:
    for name, text in STACKS.items():
        (tmp_path / name).write_text(text)
    verdict = document(run(clone, "-m", "harness", "diagnose", str(tmp_path), "--json"))
    assert (verdict["cause"], verdict["laggards"]) == ("prompt", ["rank1"])
    assert verdict["title"] == "one is at a debugger's prompt"
    # Of whoever stands at a prompt of pdb's every verdict says how it goes on; then come the cause's own steps.
    assert verdict["next"][1:] == ["grep -rn -e 'breakpoint()' -e set_trace .   # what stops rank 1"]


def test_a_check_of_the_doctor(clone: Path) -> None:
    found = document(run(clone, "-m", "harness", "doctor", "--topic", "machine", "--json", PYTHONIOENCODING="latin-1"))
    (mine,) = [finding for finding in found["findings"] if finding["check"] == "machine.text"]
    assert (mine["sign"], mine["text"]) == ("warn", "Programs write latin-1.")
    found = document(run(clone, "-m", "harness", "doctor", "--topic", "machine", "--json"))
    assert [finding["sign"] for finding in found["findings"] if finding["check"] == "machine.text"] == ["ok"]


def test_an_inference_engine(clone: Path, tmp_path: Path) -> None:
    found = document(run(clone, "-c", PLAN, str(tmp_path)))
    assert found["image"] in found["pulled"]
    command = found["command"]
    assert command[1:3] == ["-m", "mine.server"]
    assert command[-4:] == ["--split", "1", "--memory", "0.85"]
    assert found["counters"] == ["mine:tokens_total"]
    without = run(clone, "-m", "harness", "up", "--engine", "mine", "--json", DOCKER_HOST="unix:///nowhere")
    assert "mine" not in document(without)["what"], "it is a choice of ENGINE="


def test_a_file_that_describes_no_engine(clone: Path) -> None:
    file = clone / "harness/engines/broken.yaml"
    for text, reason in (("start: {command: [x]}\n", "weights"), ("[\n", "flow"), ("a: 1", "start"), ("", "NoneType")):
        file.write_text(text)
        program = "from harness import engines; engines.load('broken')"
        done = run(clone, "-c", program)
        assert f"EngineUnreadable: {file} describes no engine" in done.stderr, done.stderr
        assert reason in done.stderr
    file.unlink()
