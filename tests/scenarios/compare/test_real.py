"""The same on vLLM and transformers themselves, with a tiny random Qwen2: what a stand-in can't show. Long."""

from __future__ import annotations

import json
import os
import shutil
import signal
import struct
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import tiny_model
from tests.support.harness import CLONE, HARNESS, Ended, free_port
from tests.support.locked_python import locked_python
from tests.unit.compare import independent

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def python() -> str:
    """An interpreter that has vLLM, and with it torch and transformers."""
    if named := os.environ.get("DRYDOCK_VLLM_PYTHON"):
        return named
    made = locked_python("vllm")
    subprocess.run([made, str(CLONE / "docker/vllm/name_vllm.py")], check=True)
    return str(made)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model.write_folder(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="module")
def url(python: str, weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A vLLM server with these weights, whose log-probs are those after sampling parameters."""
    port = free_port()
    log = tmp_path_factory.mktemp("server") / "vllm.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [python, "-m", "vllm.entrypoints.cli.main", "serve", str(weights), "--served-model-name", "tiny",
             "--host", "127.0.0.1", "--port", str(port), "--max-model-len", "2048", "--enforce-eager",
             "--logprobs-mode", "processed_logprobs", "--enable-prompt-tokens-details"],
            env={**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1",
                 "TORCHDYNAMO_DISABLE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"},
            stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
    try:
        wait_for(f"http://127.0.0.1:{port}/health", process, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until it answers."""
    ends = time.monotonic() + 600
    while time.monotonic() < ends:
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(1)
    raise AssertionError(f"{address} doesn't answer: {log.read_text()[-3000:]}")


def compare(url: str, python: str, reference: Path, folder: Path, *more: str) -> Ended:
    called = [
        "compare", "--base-url", url, "--model", "tiny", "--reference", str(reference), "--compare-python", python,
        "--hits", "12", "--max-tokens", "32", "--json", *more,
    ]  # fmt: skip
    environment = {**os.environ, "RUNS": str(folder / "runs"), "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [str(HARNESS), *called], env=environment, cwd=CLONE, capture_output=True, text=True, timeout=800, check=False
    )
    return Ended(tuple(called), done.returncode, done.stdout, done.stderr, 0.0)


def reasons(ended: Ended) -> list[tuple[str, str]]:
    assert ended.code == 1, str(ended)
    return [(reason["id"], reason["certainty"]) for reason in ended.json()["reasons"]]


def changed(weights: Path, folder: Path, **config: object) -> Path:
    """A copy with another configuration."""
    shutil.copytree(weights, folder)
    found = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**found, **config}))
    return folder


def test_the_same_model_is_within_the_limits(url: str, python: str, weights: Path, tmp_path: Path) -> None:
    answer = compare(url, python, weights, tmp_path, "--limits", "verl,nemo-rl,prime-rl,slime,skyrl").ok().json()
    assert answer["samples"] == 12
    assert answer["tokens"]["rendered"] == 12
    assert answer["tokens"]["differences"] == []
    assert independent.main(Path(answer["folder"])) == 0


def test_temperature_and_top_p_are_named(url: str, python: str, weights: Path, tmp_path: Path) -> None:
    assert reasons(compare(url, python, weights, tmp_path, "--temperature", "0.7")) == [("temperature", "certain")]
    assert reasons(compare(url, python, weights, tmp_path, "--top-p", "0.6")) == [("top-p", "certain")]


def test_other_weights_are_named(url: str, python: str, weights: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(weights, other)
    file = other / "model.safetensors"
    raw = bytearray(file.read_bytes())
    start = 8 + struct.unpack("<Q", raw[:8])[0]
    # Every fourth value of all weights a fifth larger: bfloat16 is the upper half of a float.
    for place in range(start, len(raw) - 1, 8):
        (value,) = struct.unpack("<f", b"\0\0" + raw[place : place + 2])
        raw[place : place + 2] = struct.pack("<f", value * 1.2)[2:]
    file.write_bytes(raw)
    assert reasons(compare(url, python, other, tmp_path)) == [("weights", "likely")]


def test_another_chat_template_is_named(url: str, python: str, weights: Path, tmp_path: Path) -> None:
    other = changed(weights, tmp_path / "other")
    settings = json.loads((other / "tokenizer_config.json").read_text())
    settings["chat_template"] = settings["chat_template"].replace("assistant\\n", "helper\\n")
    (other / "tokenizer_config.json").write_text(json.dumps(settings))
    assert reasons(compare(url, python, other, tmp_path)) == [("template", "certain")]


@pytest.mark.parametrize("way", ["batch", "cache"])
def test_one_server_in_two_ways(way: str, url: str, python: str, weights: Path, tmp_path: Path) -> None:
    answer = compare(url, python, weights, tmp_path, "--against", way).ok().json()
    assert answer["figures"]["first-second"]["samples"] == 12
    if way == "cache":
        assert any("came, in part, from the prefix cache" in note for note in answer["notes"]), answer["notes"]
