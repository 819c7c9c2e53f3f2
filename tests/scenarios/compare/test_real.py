"""The same on vLLM, llama.cpp and transformers themselves: what a stand-in can't show. Long."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.support.harness import CLONE, HARNESS, Ended, free_port, wait_for
from tests.support.llamacpp_server import serving as serving_llamacpp
from tests.support.vllm_server import (
    processes,
    random_qwen,
    random_vision,
    serving,
    smollm2,
    smollm2_gguf,
    vllm_python,
)
from tests.unit.compare import independent

# A busy machine needs minutes for what a quiet one does in twenty seconds.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

# Short prompts: SmolLM2 is fifty times the random Qwen2.
_SHORT = ("--data", str(CLONE / "examples/data/capitals.jsonl"))


@dataclass(frozen=True)
class Served:
    """A server and the weights that it has."""

    url: str
    weights: Path
    python: str


def _served(python: str, weights: Path, folder: Path) -> Iterator[Served]:
    """Log-probs are those after sampling parameters, which are the model's own where none is set."""
    flags = ("--logprobs-mode", "processed_logprobs", "--enable-prompt-tokens-details")
    with serving(python, weights, folder, *flags) as url:
        yield Served(url, weights, python)


@pytest.fixture(scope="module")
def python() -> str:
    return vllm_python()


@pytest.fixture(scope="module")
def qwen(python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("qwen")
    yield from _served(python, random_qwen(python, folder), folder)


@pytest.fixture(scope="module")
def smol(python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("smol")
    yield from _served(python, smollm2(python, folder), folder)


def begin(url: str, python: str, reference: Path, folder: Path, *more: str) -> subprocess.Popen[str]:
    """Start it; without an interpreter it takes or makes its own."""
    called = [
        "compare", "--base-url", url, "--model", "tiny", "--reference", str(reference),
        *(["--compare-python", python] if python else []), "--hits", "12", "--max-tokens", "32", "--json", *more,
    ]  # fmt: skip
    environment = {**os.environ, "RUNS": str(folder / "runs"), "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [str(HARNESS), *called], env=environment, cwd=CLONE, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> Ended:
    out, said = process.communicate(timeout=3500)
    assert isinstance(process.args, list)
    return Ended(tuple(process.args[1:]), process.returncode, out, said, 0.0)


def compare(url: str, python: str, reference: Path, folder: Path, *more: str) -> Ended:
    return ended(begin(url, python, reference, folder, *more))


def reasons(done: Ended) -> list[tuple[str, str]]:
    assert done.code == 1, str(done)
    return [(reason["id"], reason["certainty"]) for reason in done.json()["reasons"]]


def copied(weights: Path, folder: Path) -> Path:
    other = folder / "other"
    shutil.copytree(weights, other)
    return other


def perturbed(weights: Path, folder: Path, change: Callable[[float], float]) -> Path:
    """The same model with every eighth value changed, as a training step or another revision would."""
    other = copied(weights, folder)
    file = other / "model.safetensors"
    raw = bytearray(file.read_bytes())
    start = 8 + struct.unpack("<Q", raw[:8])[0]
    # bfloat16 is the upper half of a float.
    for place in range(start, len(raw) - 1, 16):
        (value,) = struct.unpack("<f", b"\0\0" + raw[place : place + 2])
        raw[place : place + 2] = struct.pack("<f", change(value))[2:]
    file.write_bytes(raw)
    return other


WITHIN = {"qwen": "verl,nemo-rl,prime-rl,slime,skyrl", "smol": "verl,prime-rl,slime,skyrl"}


@pytest.mark.parametrize("name", WITHIN)
def test_the_same_model_is_within_the_limits(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    served: Served = request.getfixturevalue(name)
    data = _SHORT if name == "smol" else ()
    done = compare(served.url, served.python, served.weights, tmp_path, "--limits", WITHIN[name], *data)
    answer = done.ok().json()
    assert answer["samples"] == 12
    assert answer["tokens"]["rendered"] == 12
    assert answer["tokens"]["differences"] == []
    assert set(answer["figures"]) == {
        "decode-reference", "prefill-reference", "decode-prefill", "rounding", "decode-other",
    }  # fmt: skip
    # The figures once more, from the saved log-probs, by a script of its own.
    assert independent.main(Path(answer["folder"])) == 0


def test_a_mere_difference_in_dtype_is_told_from_other_weights(smol: Served, tmp_path: Path) -> None:
    """Beyond a strict limit both; one dtype more tells which it is, and without it that stays open."""
    # Questions with one short answer leave so little to round that some processors stay within this limit.
    strict = ("--limits", "nemo-rl")
    same = compare(smol.url, smol.python, smol.weights, tmp_path, "--dtype", "float32,bfloat16", *strict)
    assert reasons(same) == [("dtype", "likely")]
    drawn = random.Random(1)
    other = perturbed(smol.weights, tmp_path, lambda value: value * (1 + drawn.gauss(0, 0.2)))
    assert reasons(compare(smol.url, smol.python, other, tmp_path, *strict)) == [("weights", "certain")]
    alone = compare(smol.url, smol.python, other, tmp_path, "--dtype", "bfloat16", *strict)
    assert reasons(alone) == [("weights", "undecided"), ("dtype", "undecided")]


def test_other_weights_are_named(qwen: Served, tmp_path: Path) -> None:
    other = perturbed(qwen.weights, tmp_path, lambda value: value * 1.4)
    assert reasons(compare(qwen.url, qwen.python, other, tmp_path)) == [("weights", "certain")]


def test_temperature_and_top_p_are_named(qwen: Served, tmp_path: Path) -> None:
    for flag, value, name in (("--temperature", "0.7", "temperature"), ("--top-p", "0.6", "top-p")):
        done = compare(qwen.url, qwen.python, qwen.weights, tmp_path, flag, value)
        assert reasons(done) == [(name, "certain")]


def test_log_probs_that_a_trainer_put_beside_their_tokens_are_named(qwen: Served, tmp_path: Path) -> None:
    """A rollout's own record of a real engine, moved by one token as a wrong slice would."""
    folder = Path(compare(qwen.url, qwen.python, qwen.weights, tmp_path).ok().json()["folder"])
    rows = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    data = tmp_path / "rollouts.jsonl"
    data.write_text("".join(
        json.dumps({"prompt_ids": row["prompt"], "output_ids": row["output"],
                    "logprobs": [*row["decode"][1:], row["decode"][0]]}) + "\n"
        for row in rows
    ))  # fmt: skip
    done = compare(qwen.url, qwen.python, qwen.weights, tmp_path, "--data", str(data))
    assert reasons(done) == [("shifted", "certain")]


def test_another_chat_template_is_named(qwen: Served, tmp_path: Path) -> None:
    other = copied(qwen.weights, tmp_path)
    file = other / "chat_template.jinja"
    template = file.read_text()
    file.write_text(template.replace("<|im_start|>assistant", "<|im_start|>helper"))
    assert file.read_text() != template
    assert reasons(compare(qwen.url, qwen.python, other, tmp_path)) == [("template", "certain")]


def test_a_dropped_bos_is_named(qwen: Served, tmp_path: Path) -> None:
    other = copied(qwen.weights, tmp_path)
    file = other / "chat_template.jinja"
    file.write_text("{{- bos_token }}" + file.read_text())
    assert reasons(compare(qwen.url, qwen.python, other, tmp_path)) == [("bos", "certain")]


def test_another_rope_theta_is_named(qwen: Served, tmp_path: Path) -> None:
    other = copied(qwen.weights, tmp_path)
    config = json.loads((other / "config.json").read_text())
    # transformers 5 keeps it among the rope's parameters, others beside the rest.
    config.setdefault("rope_parameters", {"rope_type": "default"})["rope_theta"] = 100.0
    (other / "config.json").write_text(json.dumps(config))
    assert reasons(compare(qwen.url, qwen.python, other, tmp_path)) == [("rope", "certain")]


@pytest.mark.parametrize("way", ["batch", "cache"])
def test_one_server_in_two_ways(way: str, qwen: Served, tmp_path: Path) -> None:
    # One at a time against 64 at once.
    done = compare(qwen.url, qwen.python, qwen.weights, tmp_path, "--against", way, "--hits", "64", "--in-flight", "64")
    assert done.code in (0, 1), str(done)
    answer = done.json()
    assert answer["figures"]["first-second"]["samples"] == 64
    assert any("outputs are the same to the last bit" in note for note in answer["notes"]), answer["notes"]
    if way == "cache":
        # The server's own word on what came from its cache: none when cold, some when warm.
        assert any("came, in part, from the prefix cache" in note for note in answer["notes"]), answer["notes"]
        folder = Path(answer["folder"])
        cold = [json.loads(line)["cached"] for line in (folder / "samples.jsonl").read_text().splitlines()]
        warm = [json.loads(line)["cached"] for line in (folder / "reference-second.jsonl").read_text().splitlines()]
        assert not any(cold)
        assert any(warm)


def _kept(runs: Path) -> int:
    """Samples of a comparison that is under way."""
    return sum(path.read_bytes().count(b"\n") for path in runs.glob(".compare-*/samples.jsonl"))


@pytest.mark.parametrize("what", ["the server", "its engine alone"])
def test_a_server_that_is_killed_leaves_what_it_said_and_the_same_command_goes_on(
    what: str, python: str, tmp_path: Path
) -> None:
    weights, port = random_qwen(python, tmp_path), free_port()
    more = ("--hits", "400", "--in-flight", "2", "--limits", WITHIN["qwen"])
    with serving(python, weights, tmp_path, port=port) as url:
        process = begin(url, python, weights, tmp_path, *more)
        wait_for("samples that are kept", lambda: _kept(tmp_path / "runs") >= 8, 600)
        for one in processes(url)[0 if what == "the server" else 1 :]:
            with contextlib.suppress(psutil.Error):
                one.kill()
        died = ended(process)
        assert died.code == 3, str(died)
        assert "samples are kept; the same command goes on there" in " ".join(died.stderr.split()), str(died)
    kept = _kept(tmp_path / "runs")
    assert 8 <= kept < 400
    with serving(python, weights, tmp_path, port=port) as url:
        answer = compare(url, python, weights, tmp_path, *more).ok().json()
    assert (answer["samples"], answer["continued"], answer["problems"]) == (400, kept, {})
    assert independent.main(Path(answer["folder"])) == 0


@pytest.mark.parametrize("made", [False, True], ids=["the server's Python", "a Python that it makes itself"])
def test_images_go_the_same_way_on_both_sides(made: bool, python: str, tmp_path: Path) -> None:
    """In three forms of data; and pixels that one side normalises otherwise don't pass."""
    weights = random_vision(python, tmp_path)
    data = ("--data", str(weights / "pictures.jsonl"), "--limits", "verl,nemo-rl,prime-rl,slime,skyrl")
    own = "" if made else python
    with serving(python, weights, tmp_path) as url:
        answer = compare(url, own, weights, tmp_path, *data).ok().json()
        assert (answer["samples"], answer["problems"], answer["tokens"]["differences"]) == (12, {}, [])
        assert answer["figures"]["decode-reference"]["abs_mean"] < 0.1
        assert independent.main(Path(answer["folder"])) == 0
        other = copied(weights, tmp_path)
        file = other / "processor_config.json"
        config = json.loads(file.read_text())
        config["image_processor"]["image_std"] = [0.1, 0.1, 0.1]
        file.write_text(json.dumps(config))
        different = compare(url, own, other, tmp_path, *data)
    assert different.code == 1, str(different)
    assert different.json()["figures"]["decode-reference"]["abs_mean"] > 0.1


def test_llama_cpp_is_compared_as_far_as_it_goes(python: str, tmp_path: Path) -> None:
    """Against its own file, which transformers reads as well; that it gives no log-probs of a prompt is said."""
    gguf = smollm2_gguf()
    with serving_llamacpp(gguf, tmp_path) as url:
        done = compare(url, python, gguf, tmp_path, *_SHORT)
    assert done.code in (0, 1), str(done)
    answer = done.json()
    assert answer["server"]["cannot"] == ["prompt log-probs"]
    assert answer["samples"] == 12
    assert "decode-reference" in answer["figures"]
    assert "prefill-reference" not in answer["figures"]
    assert any("can't give log-probs of a prompt" in note for note in answer["notes"])
    # The weights are the same but for its arithmetic in four bits, so it is no other model.
    assert answer["figures"]["decode-reference"]["pearson"] > 0.9
    assert independent.main(Path(answer["folder"])) == 0
