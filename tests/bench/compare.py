"""`compare` against a loop of one request and one `generate` at a time, against its server alone, and its memory."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import psutil

from tests.support.harness import CLONE, HARNESS
from tests.support.vllm_server import processes, serving, smollm2, vllm_python

SAMPLES, TOKENS, AT_ONCE = 64, 64, 64
NAME = "tiny"
LOOP, SERVER, MEMORY = 5.0, 0.8, 200e6

# As guides show it: one sample after the other, on each side, and the answers held against each other.
_LOOP = """
import json, sys, urllib.request
from transformers import AutoModelForCausalLM, AutoTokenizer
url, folder, data, name, samples, tokens = sys.argv[1:5] + [int(value) for value in sys.argv[5:7]]
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder, dtype="bfloat16").eval()
lines = [json.loads(line) for line in open(data)]
same = 0
for number in range(samples):
    row = lines[number % len(lines)]
    ids = tokenizer.apply_chat_template(row["messages"], tools=row.get("tools"), add_generation_prompt=True,
                                        return_tensors="pt", return_dict=True)
    body = {"model": name, "prompt": ids["input_ids"][0].tolist(), "max_tokens": tokens, "temperature": 0}
    kind = {"content-type": "application/json"}
    asked = urllib.request.Request(url + "/completions", json.dumps(body).encode(), kind)
    text = json.load(urllib.request.urlopen(asked))["choices"][0]["text"]
    made = model.generate(**ids, max_new_tokens=tokens, do_sample=False)
    same += tokenizer.decode(made[0, ids["input_ids"].shape[1]:], skip_special_tokens=True) == text
print(same)
"""


# The weights with what has to be imported for them, and every byte of them in memory.
_MODEL = """
import sys
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype="bfloat16").eval()
for parameter in model.parameters():
    parameter.detach().flatten()[::512].sum()
print("there", flush=True)
sys.stdin.read()
"""


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", "HF_HUB_OFFLINE": "1", **more}


def loop(url: str, python: str, weights: Path) -> float:
    """Seconds of the loop."""
    data = CLONE / "harness/compare/conversations.jsonl"
    started = time.monotonic()
    subprocess.run(
        [python, "-c", _LOOP, url, str(weights), str(data), NAME, str(SAMPLES), str(TOKENS)],
        env=environment(), check=True, capture_output=True, timeout=3000,
    )  # fmt: skip
    return time.monotonic() - started


def memory(processes: Sequence[psutil.Process]) -> int:
    """Bytes of some processes together; what several of them map counts for each in part (proportional set size)."""
    total = 0
    for process in processes:
        with contextlib.suppress(OSError, ValueError):
            rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            total += 1024 * int(rollup.split("\nPss:")[1].split()[0])
    return total


def bare(python: str, weights: Path) -> int:
    """Bytes of a process that has the model in memory, all of its weights, and does nothing else."""
    with subprocess.Popen([python, "-c", _MODEL, str(weights)], env=environment(), stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        found = memory([psutil.Process(process.pid)])
        process.communicate("")
    return found


class Tree(threading.Thread):
    """Memory of a process and all that it started, together, at most; looked at while it runs.

    Args:
        pid: of the process.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._process, self.most = psutil.Process(pid), 0
        self.start()

    def run(self) -> None:
        """Until it ends."""
        with contextlib.suppress(psutil.Error):
            while self._process.is_running() and self._process.status() != psutil.STATUS_ZOMBIE:
                self.most = max(self.most, memory([self._process, *self._process.children(recursive=True)]))
                time.sleep(0.05)


def ours(url: str, python: str, weights: Path, folder: Path) -> tuple[float, dict[str, Any], int]:
    """Seconds of ``compare``, its answer, and bytes of all its processes at most."""
    started = time.monotonic()
    process = subprocess.Popen(
        [str(HARNESS), "compare", "--base-url", url, "--model", NAME, "--reference", str(weights),
         "--compare-python", python, "--hits", str(SAMPLES), "--max-tokens", str(TOKENS), "--in-flight", str(AT_ONCE),
         "--dtype", "bfloat16", "--json"],
        env=environment(RUNS=str(folder)), cwd=CLONE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    tree = Tree(process.pid)
    out, said = process.communicate(timeout=3000)
    assert process.returncode in (0, 1), said
    return time.monotonic() - started, json.loads(out), tree.most


async def alone(url: str, samples: list[dict[str, Any]]) -> float:
    """Seconds that the server takes for the same requests from a client that does nothing else."""
    async with httpx2.AsyncClient(timeout=600, limits=httpx2.Limits(max_connections=AT_ONCE)) as client:

        async def one(sample: dict[str, Any]) -> None:
            asked = {"model": NAME, "prompt": sample["prompt"], "max_tokens": len(sample["output"]), "logprobs": 1,
                     "temperature": 1.0, "return_tokens_as_token_ids": True, "ignore_eos": True}  # fmt: skip
            (await client.post(f"{url}/completions", json=asked)).raise_for_status()
            ids = [*sample["prompt"], *sample["output"]]
            read = {"model": NAME, "prompt": ids, "max_tokens": 1, "prompt_logprobs": 1, "temperature": 0}
            (await client.post(f"{url}/completions", json=read)).raise_for_status()

        started = time.monotonic()
        await asyncio.gather(*(one(sample) for sample in samples))
        return time.monotonic() - started


class Spent:
    """CPU time of what a measurement starts and of the server's processes; it says the same on a busy machine.

    Args:
        url: of the server; one on this machine.
    """

    def __init__(self, url: str) -> None:
        self._server = processes(url)
        self._begun = self._now()

    def _now(self) -> tuple[float, float]:
        ours = resource.getrusage(resource.RUSAGE_CHILDREN)
        theirs = [process.cpu_times() for process in self._server]
        return ours.ru_utime + ours.ru_stime, sum(one.user + one.system for one in theirs)

    def seconds(self) -> float:
        """Since it was made."""
        return sum(self._now()) - sum(self._begun)


def measure(url: str, python: str, weights: Path, folder: Path, pairs: int) -> bool:
    """Measure in turn and print; returns whether the goals are met."""
    faster, busy, cheaper, over = [], [], [], 0
    for _ in range(pairs):
        model = bare(python, weights)
        spent = Spent(url)
        seconds, answer, most = ours(url, python, weights, folder)
        own = spent.seconds()
        found = Path(answer["folder"]) / "samples.jsonl"
        samples = [json.loads(line) for line in found.read_text().splitlines()]
        by_itself = asyncio.run(alone(url, [sample for sample in samples if sample["output"]]))
        spent = Spent(url)
        straight = loop(url, python, weights)
        sampling = answer["speed"]["sampling"]
        over = max(over, most - model)
        faster.append(straight / seconds)
        busy.append(by_itself / sampling)
        cheaper.append(spent.seconds() / own)
        print(
            f"compare of {SAMPLES} samples: {seconds:.1f} s (reference after {answer['speed']['loaded']:.1f} s), the "
            f"loop {straight:.1f} s: {faster[-1]:.1f} times, by CPU time {cheaper[-1]:.1f} times; the server alone "
            f"{by_itself:.1f} s of {sampling:.1f} s: {busy[-1]:.2f}; memory of all processes at most "
            f"{most / 1e6:.0f} MB, of the model alone {model / 1e6:.0f} MB",
            flush=True,
        )
    ratio, share = statistics.median(faster), statistics.median(busy)
    met = ratio >= LOOP and share >= SERVER and over <= MEMORY
    print(
        f"medians of {pairs}: {ratio:.1f} times faster than the loop (goal: ≥ {LOOP:g}), by CPU time "
        f"{statistics.median(cheaper):.1f}; server busy {share:.2f} (goal: ≥ {SERVER}); {over / 1e6:.0f} MB over the "
        f"model (goal: ≤ {MEMORY / 1e6:.0f}): {'met' if met else 'MISSED'}"
    )
    return met


def run(pairs: int = 1) -> bool:
    """On SmolLM2-135M, some ten minutes a pair on two cores; returns whether the goals are met.

    A model much smaller than that is done before the reference has been imported, which says nothing about sampling.
    """
    python = vllm_python()
    with tempfile.TemporaryDirectory() as folder:
        weights = smollm2(python, Path(folder))
        with serving(python, weights, Path(folder)) as url:
            return measure(url, python, weights, Path(folder) / "runs", pairs)


if __name__ == "__main__":
    # On a server that runs already, with other weights: python -m tests.bench.compare URL PYTHON FOLDER NAME TOKENS
    if len(sys.argv) == 6:
        NAME, TOKENS = sys.argv[4], int(sys.argv[5])
        with tempfile.TemporaryDirectory() as kept:
            sys.exit(0 if measure(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(kept), 1) else 1)
    sys.exit(0 if run() else 1)
