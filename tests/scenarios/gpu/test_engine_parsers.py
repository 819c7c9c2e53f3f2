"""The engines' own parsers accept the command lines that the gateway would start them with on GPUs.

That proves names and types of flags, not that an engine starts. vLLM's is in our image for CPUs; SGLang's is read from
its wheel, without the kernels that only a GPU has.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from gateway.config import load_config
from gateway.engines import command_of
from harness import docker_engine, engines
from harness.settings import Engine, load_settings
from harness.stack.gpu.fit import Fit, flags
from harness.stack.images import ensure_images
from tests.support.torch_python import torch_python

WAYS = [Fit(1, 1, 1, 0.85, 8192), Fit(2, 1, 4, 0.4, 32768), Fit(2, 2, 2, 0.85, 1024)]
each_way = pytest.mark.parametrize("found", WAYS, ids=lambda found: f"tp{found.tensor}pp{found.pipeline}dp{found.data}")

VLLM = """
import json, os, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
parsed = make_arg_parser(FlexibleArgumentParser()).parse_args(json.loads(sys.argv[1]))
print(parsed.tensor_parallel_size, parsed.pipeline_parallel_size, parsed.data_parallel_size, parsed.max_model_len)
"""
SGLANG = """
import argparse, json, sys
from sglang.srt.server_args import ServerArgs
parser = argparse.ArgumentParser()
ServerArgs.add_cli_args(parser)
parsed = parser.parse_args(json.loads(sys.argv[1]))
print(parsed.tp_size, parsed.pp_size, parsed.dp_size, parsed.context_length)
"""
# What importing sglang.srt.server_args takes, beside torch: seen with sglang 0.5.23.
SGLANG_NEEDS = (
    *("aiohttp", "anyio", "ipython", "msgspec", "orjson", "packaging", "pillow", "psutil"),
    *("pybase64", "pydantic", "pyzmq", "requests", "starlette", "tqdm", "triton"),
)
SGLANG_VERSION = "0.5.23"


def words(engine: Engine, found: Fit, folder: Path) -> list[str]:
    """What the engine is started with after its program's name."""
    (folder / "api_key").write_text("x")
    config = load_config(
        {
            "ENGINE": engine,
            "ENGINE_START": json.dumps(asdict(engines.load(engine).start)),
            "MODEL_PATH": "/models",
            "MODEL_NAMES": '["qwen2.5-0.5b"]',
            "API_KEY_FILE": str(folder / "api_key"),
            "CONTEXT": str(found.context),
            "ENGINE_GPU_ARGS": " ".join(flags(engine, found)),
        }
    )
    command = command_of(config)
    return command[command.index("serve") + 1 :] if "serve" in command else command[3:]


def expected(found: Fit) -> str:
    return f"{found.tensor} {found.pipeline} {found.data} {found.context}"


@pytest.fixture(scope="module")
def vllm() -> list[str]:
    """A command that runs Python code where vLLM is: our image, or the interpreter that a variable names."""
    if named := os.environ.get("DRYDOCK_VLLM_PYTHON"):
        return [named, "-c"]
    image = ensure_images(docker_engine.connect(), load_settings({"engine": "vllm"}, environ={})).inference
    return ["docker", "run", "--rm", "--network", "none", "--entrypoint", "/opt/engine/bin/python", str(image), "-c"]


@pytest.mark.slow  # builds the image with vLLM where it isn't there
@each_way
def test_vllm_accepts_our_flags(vllm: list[str], found: Fit, tmp_path: Path) -> None:
    given = json.dumps(words("vllm", found, tmp_path))
    done = subprocess.run([*vllm, VLLM, given], capture_output=True, text=True, check=False)
    assert done.stdout.strip().endswith(expected(found)), done.stderr[-2000:]


@pytest.mark.slow
def test_vllm_refuses_what_is_no_flag(vllm: list[str], tmp_path: Path) -> None:
    given = json.dumps([*words("vllm", WAYS[0], tmp_path), "--no-such-flag", "1"])
    done = subprocess.run([*vllm, VLLM, given], capture_output=True, text=True, check=False)
    assert done.returncode == 2


@pytest.fixture(scope="module")
def sglang(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], dict[str, str]]:
    """A command that runs Python code where SGLang's wheel is, and its environment."""
    python, folder = torch_python(), tmp_path_factory.mktemp("sglang")
    for packages in ([f"sglang=={SGLANG_VERSION}", "--no-deps"], SGLANG_NEEDS):
        done = subprocess.run(
            [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--target", str(folder), *packages],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            pytest.skip(f"sglang can't be had here: {done.stderr.strip()[-300:]}")
    return [python, "-c"], {**os.environ, "PYTHONPATH": str(folder)}


@pytest.mark.slow  # 40 MB of wheels and seconds of imports
@each_way
def test_sglang_accepts_our_flags(sglang: tuple[list[str], dict[str, str]], found: Fit, tmp_path: Path) -> None:
    command, environment = sglang
    given = json.dumps(words("sglang", found, tmp_path))
    done = subprocess.run([*command, SGLANG, given], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip().endswith(expected(found)), done.stderr[-2000:]
