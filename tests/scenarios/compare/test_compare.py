"""``harness compare`` as people run it, on a model of a few lines: faults are named, bad input is a sentence."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.agent.source import locate_function
from harness.compare import run
from harness.compare.answers import Rewarder
from harness.compare.checkpoint import Store
from harness.compare.conversations import BUILT_IN
from harness.compare.job import Job, Outcome
from harness.compare.model import Sampling
from harness.compare.reference import Reference
from harness.errors import EnvironmentUnfit
from harness.openai_api.http import Endpoint
from tests.support.comparing import begin, compare, wait_for_lines
from tests.support.harness import Ended
from tests.support.two_sides import SCORING, TOKENIZER, Sides, fake_python, fake_weights, serving
from tests.unit.compare import independent


def reasons(ended: Ended) -> list[tuple[str, str]]:
    assert ended.code == 1, str(ended)
    return [(reason["id"], reason["certainty"]) for reason in ended.json()["reasons"]]


@pytest.mark.parametrize("dialect", ["vllm", "sglang"])
def test_the_same_model_agrees_in_three_ways(dialect: str, tmp_path: Path) -> None:
    sides = Sides(dialect=dialect)
    with serving(sides) as url:
        ended = compare(url, tmp_path).ok()
    answer = ended.json()
    assert answer["agree"]
    assert answer["samples"] == 10
    assert set(answer["figures"]) == {
        "decode-reference", "prefill-reference", "decode-prefill", "rounding", "decode-other",
    }  # fmt: skip
    assert answer["figures"]["decode-prefill"]["abs_max"] < 1e-9
    assert sides.most_at_once > 1
    assert answer["tokens"]["rendered" if dialect == "vllm" else "counted"] > 5
    folder = Path(answer["folder"])
    assert (folder / "report.html").is_file()
    # What was gathered is all there, and gives the same figures by another hand.
    assert independent.main(folder) == 0
    assert not list((tmp_path / "runs").glob(".compare-*"))


@pytest.mark.parametrize(("samples", "taken"), [(10, TOKENIZER), (400, TOKENIZER + SCORING)])
def test_memory_counts_all_processes_and_the_tokenizers_ends_when_nothing_hangs_on_it(
    samples: int, taken: int, tmp_path: Path
) -> None:
    with serving(Sides()) as url:
        answer = compare(url, tmp_path, "--hits", str(samples)).ok().json()
    assert answer["samples"] == samples
    # All of few samples are rendered before the weights are there; of many some are rendered while others are scored.
    assert answer["reference"]["over_model"] == taken


def test_a_process_that_ends_has_answered_before(tmp_path: Path) -> None:
    async def ask() -> tuple[int, list[list[list[int]]]]:
        async with Reference(str(fake_python(tmp_path))) as reference:
            await reference.open("weights")
            pid = reference.pid
            answers = asyncio.gather(*(reference.encode([str(number)]) for number in range(20)))
            await asyncio.sleep(0)
            await reference.end()
            return pid, await answers

    pid, answers = asyncio.run(ask())
    assert len(answers) == 20
    assert not psutil.pid_exists(pid)


def test_a_server_without_prompt_log_probs_is_compared_as_far_as_it_goes(tmp_path: Path) -> None:
    with serving(Sides(dialect="llamacpp")) as url:
        answer = compare(url, tmp_path).ok().json()
    assert answer["server"]["cannot"] == ["prompt log-probs"]
    assert "decode-reference" in answer["figures"]
    assert "prefill-reference" not in answer["figures"]
    assert any("can't give log-probs of a prompt" in note for note in answer["notes"])
    assert answer["server"]["engine"] == "llama.cpp"
    assert answer["tokens"]["rendered"] > 5


FAULTS: dict[str, tuple[Sides, Sampling, list[tuple[str, str]]]] = {
    "temperature": (
        Sides(faults=frozenset({"processed"})), Sampling(temperature=0.7), [("temperature", "certain")],
    ),
    "a temperature that nobody asked for": (
        Sides(faults=frozenset({"processed"}), overrides={"temperature": 0.6}), Sampling(),
        [("temperature", "certain")],
    ),
    "top-p": (Sides(faults=frozenset({"processed"})), Sampling(top_p=0.5), [("top-p", "certain")]),
    "one token beside": (Sides(faults=frozenset({"shifted"})), Sampling(), [("shifted", "certain")]),
    "another model": (Sides(seed=2), Sampling(), [("weights", "likely")]),
    "an engine that contradicts itself": (
        Sides(faults=frozenset({"noisy"})), Sampling(), [("engine-decode", "likely")],
    ),
    "another template": (Sides(template="other"), Sampling(), [("template", "certain")]),
    "no BOS": (Sides(template="no bos"), Sampling(), [("bos", "certain")]),
    "NaN": (Sides(faults=frozenset({"nan"})), Sampling(), [("not-finite", "certain")]),
    "minus infinity": (Sides(faults=frozenset({"infinite"})), Sampling(), [("not-finite", "certain")]),
}  # fmt: skip


def in_this_process(url: str, folder: Path, sampling: Sampling, **options: Any) -> Outcome:
    """The same without the command around it."""
    job = Job(
        Endpoint(url, ""), "two-sides", BUILT_IN, 10, replace(sampling, max_tokens=16),
        reference=str(fake_weights(folder / "weights")), python=str(fake_python(folder, **options)),
    )  # fmt: skip
    return asyncio.run(run.compare(job, Store(folder / "store"), lambda _progress: None))


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named(name: str, tmp_path: Path) -> None:
    sides, sampling, expected = FAULTS[name]
    with serving(sides) as url:
        verdict = in_this_process(url, tmp_path, sampling).verdict
    assert not verdict.agree
    assert [(reason.id, reason.certainty) for reason in verdict.reasons] == expected


def test_another_model_is_found_before_all_is_sampled(tmp_path: Path) -> None:
    with serving(Sides(seed=2)) as url:
        answer = compare(url, tmp_path, "--hits", "2000", "--in-flight", "4").json()
    assert 4 <= answer["samples"] < 1000
    assert any("ended early, after 4 samples had been scored" in note for note in answer["notes"])


_REWARDS = """
import json, sys, time
print("what a reward function prints goes nowhere")

def letters(prompt, completions, prompt_ids, completion_ids, **data):
    assert prompt.startswith("<s>") and len(completion_ids) == len(prompt_ids[:0]) + 16 and data["line"] >= 0
    return float(sum(letter in "ABCDEFGH" for letter in completions) > 4)

def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    assert (data_source, ground_truth, extra_info) == ("letters", "A", {"split": "test"})
    return {"score": float("<" in solution_str), "more": 1}

async def often_wrong(prompt, completions, prompt_ids, completion_ids, line, **data):
    if line % 3 == 0:
        raise ValueError("no answer in it")
    if line % 3 == 1:
        return float("nan")
    return 1.0

def leaves(*arguments, **data):
    sys.exit(3)

def hangs(*arguments, **data):
    time.sleep(600)
"""


def rewarded(folder: Path, function: str, url: str, *more: str) -> Ended:
    (folder / "rewarding.py").write_text(_REWARDS)
    data = folder / "data.jsonl"
    data.write_text("".join(
        json.dumps({"messages": [{"role": "user", "content": f"say {line}"}], "line": line, "data_source": "letters",
                    "reward_model": {"ground_truth": "A"}, "extra_info": {"split": "test"}}) + "\n"
        for line in range(12)
    ))  # fmt: skip
    return compare(url, folder, "--data", str(data), "--reward", f"{folder}/rewarding.py:{function}", *more)


def test_both_sides_answers_are_rewarded(tmp_path: Path) -> None:
    with serving(Sides()) as url:
        answer = rewarded(tmp_path, "letters", url).ok().json()
        found = answer["rewards"]
        assert found["samples"] == 10
        assert found["problems"] == {}
        rows = [json.loads(line) for line in (Path(answer["folder"]) / "answers.jsonl").read_text().splitlines()]
        means = [sum(row[side]["reward"] for row in rows) / 10 for side in ("engine", "reference")]
        assert [found["engine"], found["reference"]] == pytest.approx(means)
        assert found["difference"] == pytest.approx(means[1] - means[0])
        assert "Rewards" in (Path(answer["folder"]) / "report.html").read_text()
        # Greedily, both sides say the same.
        answer = rewarded(tmp_path, "letters", url, "--temperature", "0").json()
        assert answer["rewards"]["difference"] == 0
        # As verl calls it: without special tokens, and its dict.
        answer = rewarded(tmp_path, "compute_score", url).ok().json()
        assert (answer["rewards"]["samples"], answer["rewards"]["engine"]) == (10, 0)


def test_a_reward_function_that_fails_is_said_and_ends_nothing(tmp_path: Path) -> None:
    with serving(Sides()) as url:
        found = rewarded(tmp_path, "often_wrong", url).ok().json()["rewards"]
        assert found["samples"] == 3
        assert found["problems"] == {"ValueError: no answer in it": 8, "ValueError: the reward is nan": 6}
        found = rewarded(tmp_path, "leaves", url, "--hits", "2").ok().json()["rewards"]
        assert found["problems"] == {"the reward function ended its process": 4}
        assert found["engine"] is None
        ended = rewarded(tmp_path, "nobody", url)
        assert (ended.code, "has no function nobody" in ended.stderr) == (2, True), str(ended)


def test_token_ids_of_another_vocabulary(tmp_path: Path) -> None:
    with serving(Sides(faults=frozenset({"other-ids"}))) as url:
        ended = compare(url, tmp_path)
    assert ended.code != 0
    assert "isn't in the reference's vocabulary" in ended.stdout + ended.stderr


def test_a_reward_function_that_hangs_costs_its_sample(tmp_path: Path) -> None:
    (tmp_path / "rewarding.py").write_text(_REWARDS)
    asked = {"row": {}, "prompt_ids": [1], "output_ids": [2], "prompt": "p", "whole": "w", "text": "t"}

    async def twice() -> list[dict[str, Any]]:
        function = locate_function("rewarding.py:hangs", (tmp_path,))
        async with Rewarder(sys.executable, function, 1.0) as rewarder:
            return [await rewarder.judge(asked), await rewarder.judge(asked)]

    assert asyncio.run(twice()) == [{"error": "nothing within 1 s"}] * 2


def test_a_server_of_other_files_is_told_before_anything_is_compared(tmp_path: Path) -> None:
    served = fake_weights(tmp_path / "served")
    for folder, content in ((served, b"a" * 9000), (fake_weights(tmp_path / "weights"), b"a" * 8000 + b"b" * 1000)):
        (folder / "model.safetensors").write_bytes(content)
    with serving(Sides(root=str(served))) as url:
        answer = compare(url, tmp_path).ok().json()
        said = "the server was started from"
        assert any(said in note and "model.safetensors (other content)" in note for note in answer["notes"])
        (tmp_path / "weights/model.safetensors").write_bytes(b"a" * 9000)
        assert not any(said in note for note in compare(url, tmp_path).ok().json()["notes"])


@pytest.mark.parametrize("dialect", ["vllm", "llamacpp"])
def test_another_tokenizer_is_found_before_anything_is_sampled(dialect: str, tmp_path: Path) -> None:
    sides = Sides(dialect=dialect, faults=frozenset({"other-texts"}))
    with serving(sides) as url:
        ended = compare(url, tmp_path)
    assert reasons(ended) == [("vocabulary", "certain")]
    assert ended.json()["samples"] == 0
    assert "15 of 15 token ids that were asked for are another text" in ended.json()["reasons"][0]["what"]
    # But the ones that ask what the server is.
    assert len([body for path, body in sides.requests if path == "/v1/completions"]) <= 2


def test_empty_completions_and_long_prompts_are_left_out_by_name(tmp_path: Path) -> None:
    with serving(Sides(faults=frozenset({"empty"}))) as url:
        answer = compare(url, tmp_path).json()
    assert answer["problems"] == {"empty completion": 10}
    assert answer["exit_code"] == 1
    with serving(Sides(context=300)) as url:
        answer = compare(url, tmp_path, "--hits", "12").ok().json()
    assert any("tokens, and the server's context 300" in problem for problem in answer["problems"])


def _with_pictures(folder: Path) -> Path:
    (folder / "a.png").write_bytes(b"no real one: here nobody looks into it")
    parts = [{"type": "image_url", "image_url": {"url": "a.png"}}, {"type": "text", "text": "what is it?"}]
    data = folder / "pictures.jsonl"
    data.write_text(json.dumps({"messages": [{"role": "user", "content": parts}]}) + "\n")
    return data


def test_conversations_with_images_are_compared_by_what_is_sampled(tmp_path: Path) -> None:
    data = _with_pictures(tmp_path)
    with serving(Sides()) as url:
        answer = compare(url, tmp_path, "--data", str(data)).ok().json()
        assert (answer["samples"], answer["tokens"]["rendered"], answer["problems"]) == (10, 10, {})
        assert "decode-reference" in answer["figures"]
        assert "prefill-reference" not in answer["figures"]
        ended = compare(url, tmp_path, "--data", str(data), "--against", "batch")
        assert (ended.code, "has images, which AGAINST= can't take" in ended.stderr) == (2, True), str(ended)
    with serving(Sides(template="other")) as url:
        assert reasons(compare(url, tmp_path, "--data", str(data))) == [("template", "certain")]
    with serving(Sides(dialect="llamacpp")) as url:
        answer = compare(url, tmp_path, "--data", str(data)).json()
        assert answer["samples"] == 0
        assert any("without which images can't be compared" in problem for problem in answer["problems"])


def test_a_server_that_dies_leaves_what_it_said_and_the_same_command_goes_on(tmp_path: Path) -> None:
    sides = Sides(dies_after=9)
    with serving(sides) as url:
        ended = compare(url, tmp_path, "--in-flight", "2", "--hits", "24")
        assert ended.code == 3, str(ended)
        assert "samples are kept" in ended.stderr
        assert "has died" in ended.stderr
        sides.dies_after = 0
        before = len(sides.requests)
        answer = compare(url, tmp_path, "--in-flight", "2", "--hits", "24").ok().json()
        decoded = [body for path, body in sides.requests[before:] if path == "/v1/completions" and "logprobs" in body]
    assert answer["samples"] == 24
    assert answer["continued"] >= 4
    assert len(decoded) <= 24 - answer["continued"] + 1  # and the one that asks what the server is


def test_ctrl_c_and_a_kill_lose_nothing_and_the_same_command_goes_on(tmp_path: Path) -> None:
    sides = Sides(stands_after=20)
    more = ("--hits", "60", "--in-flight", "2")
    with serving(sides) as url:
        for how, code, then in ((signal.SIGINT, 130, 40), (signal.SIGKILL, -signal.SIGKILL, 0)):
            process = begin(url, tmp_path, *more)
            wait_for_lines(tmp_path / "runs", sides.stands_after - 10)
            process.send_signal(how)
            assert process.wait(timeout=60) == code, process.communicate()
            sides.stands_after = then
        answer = compare(url, tmp_path, *more).ok().json()
    assert answer["samples"] == 60
    assert 30 <= answer["continued"] < 60
    # The server answers otherwise each time: what the reference said belongs to the samples that were kept.
    assert independent.main(Path(answer["folder"])) == 0
    assert answer["figures"]["decode-reference"]["abs_max"] < 0.2


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "too big": ({"error": ["memory", "the model in bfloat16 takes some 3.0 GB"]}, "AGAINST=URL"),
    "killed": ({"dies": True}, "memory ran out"),
    "no weights": ({"error": ["weights", "no weights can be read from x"]}, "no weights can be read"),
    "no torch": ({"error": ["import", "No module named 'torch'"]}, "COMPARE_PYTHON="),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_reference_that_cannot_be_is_a_sentence(name: str, tmp_path: Path) -> None:
    options, words = REFUSED[name]
    with serving(Sides()) as url, pytest.raises(EnvironmentUnfit) as raised:
        in_this_process(url, tmp_path, Sampling(), **options)
    assert words in " ".join(raised.value.as_dict().values())


def test_what_cannot_be_asked_is_a_sentence(tmp_path: Path) -> None:
    ended = compare("http://127.0.0.1:9/v1", tmp_path)
    assert (ended.code, "can't be reached" in ended.stderr) == (3, True), str(ended)
    with serving(Sides(dialect="chat")) as url:
        ended = compare(url, tmp_path)
        assert (ended.code, "gives no log-probs for token ids" in ended.stderr) == (3, True), str(ended)
    for status, words in ((401, "doesn't take the key: another key, please"), (404, "/models answers 404")):
        with serving(Sides(refuses=status)) as url:
            ended = compare(url, tmp_path)
        assert (ended.code, words in ended.stderr) == (3, True), str(ended)
    data = tmp_path / "data.jsonl"
    with serving(Sides()) as url:
        picture = json.dumps({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]})
        for text, words in (
            ("{}\n", "has none of messages"),
            (picture, "an image is neither a file nor a data: URL"),
            ("[1\n", "no JSON"),
            ("", "holds no conversation"),
        ):
            data.write_text(text)
            ended = compare(url, tmp_path, "--data", str(data))
            assert (ended.code, words in ended.stderr) == (2, True), str(ended)
        ended = compare(url, tmp_path, "--limits", "nobody")
        assert (ended.code, "there are no limits of nobody" in ended.stderr) == (2, True), str(ended)


@pytest.mark.parametrize("way", ["batch", "cache"])
def test_one_server_in_two_ways(way: str, tmp_path: Path) -> None:
    with serving(Sides()) as url:
        answer = compare(url, tmp_path, "--against", way).ok().json()
    assert answer["figures"]["first-second"]["abs_max"] == 0
    assert answer["figures"]["first-second"]["undiverged"] == 1
    assert any("10 of 10 outputs are the same to the last bit" in note for note in answer["notes"])


def test_two_servers_and_an_earlier_run(tmp_path: Path) -> None:
    with serving(Sides()) as one, serving(Sides(seed=2)) as other:
        ended = compare(one, tmp_path, "--against", other)
        assert reasons(ended) == [("servers", "likely")]
        earlier = ended.json()["folder"]
        same = compare(one, tmp_path, "--against", earlier).ok().json()
        assert same["figures"]["first-second"]["abs_max"] < 1e-9
        assert reasons(compare(other, tmp_path, "--against", earlier)) == [("changed", "likely")]


def test_recorded_log_probs_are_held_against_the_reference(tmp_path: Path) -> None:
    """A rollout's own log-probs, as a trainer kept them, here at a temperature of 0.7."""
    with serving(Sides(faults=frozenset({"processed"}))) as url:
        folder = Path(compare(url, tmp_path, "--temperature", "0.7").json()["folder"])
        rows = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
        data = tmp_path / "rollouts.jsonl"
        data.write_text("".join(
            json.dumps({"prompt_ids": row["prompt"], "output_ids": row["output"], "logprobs": row["decode"]}) + "\n"
            for row in rows
        ))  # fmt: skip
        assert reasons(compare(url, tmp_path, "--data", str(data))) == [("temperature", "certain")]
