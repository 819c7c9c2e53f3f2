"""The same on vLLM and transformers themselves, with a small random Qwen2: what a stand-in can't show. Long."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.harness import CLONE, HARNESS, Ended
from tests.support.vllm_server import random_qwen, serving, vllm_python
from tests.unit.compare import independent

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def python() -> str:
    return vllm_python()


@pytest.fixture(scope="module")
def weights(python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_qwen(python, tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def url(python: str, weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server whose log-probs are those after sampling parameters."""
    folder = tmp_path_factory.mktemp("server")
    flags = ("--logprobs-mode", "processed_logprobs", "--enable-prompt-tokens-details")
    with serving(python, weights, folder, *flags) as url:
        yield url


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
    other = tmp_path / "other"
    shutil.copytree(weights, other)
    template = (other / "chat_template.jinja").read_text()
    (other / "chat_template.jinja").write_text(template.replace("assistant\\n", "helper\\n"))
    assert "helper" in (other / "chat_template.jinja").read_text()
    assert reasons(compare(url, python, other, tmp_path)) == [("template", "certain")]


def test_another_rope_theta_is_named(url: str, python: str, weights: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(weights, other)
    config = json.loads((other / "config.json").read_text())
    # transformers 5 keeps it among the rope's parameters, others beside the rest.
    config.setdefault("rope_parameters", {"rope_type": "default"})["rope_theta"] = 100.0
    (other / "config.json").write_text(json.dumps(config))
    assert reasons(compare(url, python, other, tmp_path)) == [("rope", "certain")]


@pytest.mark.parametrize("way", ["batch", "cache"])
def test_one_server_in_two_ways(way: str, url: str, python: str, weights: Path, tmp_path: Path) -> None:
    answer = compare(url, python, weights, tmp_path, "--against", way).ok().json()
    assert answer["figures"]["first-second"]["samples"] == 12
    if way == "cache":
        assert any("came, in part, from the prefix cache" in note for note in answer["notes"]), answer["notes"]
