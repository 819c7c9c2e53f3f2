"""Stage 4 against the same rollout by a bare AReaL script, in turn, on vLLM's CPU build with SmolLM2-135M.

``python -m tests.bench.areal_rollout``; some ten minutes on two cores. ``AREAL_PYTHON`` and ``DRYDOCK_VLLM_PYTHON``
name interpreters that have the two; without them they are made from their locks.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from tests.support.harness import CLONE, HARNESS
from tests.support.locked_python import locked_python
from tests.support.vllm_server import serving, smollm2, vllm_python

PROMPTS, RUNS, TOKENS = 64, 8, 48
GOAL = 1.10

_AGENT = f"""
from openai import AsyncOpenAI

class Asks:
    async def run(self, data, **extra_kwargs):
        client = AsyncOpenAI(**extra_kwargs)
        answer = await client.chat.completions.create(
            model="tiny", messages=data["messages"], max_tokens={TOKENS}, temperature=1.0)
        return float(data["answer"] in (answer.choices[0].message.content or ""))
"""


@dataclass(frozen=True)
class Spent:
    """Wall seconds of the whole command, those of the rollout alone, and CPU seconds of all but the server."""

    wall: float
    rollout: float
    cpu: float


class Bench:
    """Both ways of one rollout.

    Args:
        url: of the server.
    """

    def __init__(self, url: str, weights: Path, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.python = os.environ.get("AREAL_PYTHON") or str(locked_python("areal"))
        (folder / "asks.py").write_text(_AGENT)
        data = CLONE / "examples/data/capitals.jsonl"
        lines = [json.loads(line) for line in data.read_text().splitlines()]
        self.samples = [lines[number % len(lines)] for number in range(PROMPTS)]
        (folder / "data.jsonl").write_text("".join(f"{json.dumps(sample)}\n" for sample in self.samples))
        config = {
            "experiment_name": "bench", "trial_name": "bench", "actor": {"path": str(weights)},
            "rollout": {
                "backend": "vllm:d1", "tokenizer_path": str(weights), "max_concurrent_rollouts": 64,
                "max_head_offpolicyness": 100, "consumer_batch_size": PROMPTS,
            },
            "gconfig": {"n_samples": RUNS, "max_new_tokens": TOKENS},
            "scheduler": {"type": "local"}, "train_dataset": {"batch_size": PROMPTS},
        }  # fmt: skip
        (folder / "train.yaml").write_text(json.dumps(config))

    def ours(self) -> Spent:
        """``make check STAGE=4``."""
        arguments = [
            str(HARNESS), "check", "--here", "--stage", "4", "--config", "train.yaml", "--data", "data.jsonl",
            "--agent", "asks.py:Asks",
        ]  # fmt: skip
        more = {
            "OPENAI_BASE_URL": self.url, "AREAL_PYTHON": self.python, "RUNS": str(self.folder / "runs"),
            "DRYDOCK_HOME": str(self.folder), "GLOBAL_BS": str(PROMPTS), "GROUP_SIZE": str(RUNS),
        }  # fmt: skip
        wall, cpu, _ = self._run(arguments, more)
        report = json.loads((self.folder / "runs/latest/result.json").read_text())
        return Spent(wall, _batch_seconds(report), cpu)

    def bare(self) -> Spent:
        """AReaL alone."""
        with tempfile.TemporaryDirectory() as scratch:
            parts = urlsplit(self.url)
            job = {
                "config": str(self.folder / "train.yaml"), "agent": "asks.Asks", "path": [str(self.folder)],
                "folder": scratch, "host": parts.hostname, "port": parts.port, "samples": self.samples,
                "group_size": RUNS,
            }  # fmt: skip
            file = Path(scratch) / "job.json"
            file.write_text(json.dumps(job))
            # Its workers find the agent as a training's would.
            more = {"PYTHONPATH": str(self.folder), "WANDB_MODE": "disabled", "SWANLAB_MODE": "disabled"}
            wall, cpu, out = self._run([self.python, str(CLONE / "tests/bench/bare_areal.py"), str(file)], more)
        return Spent(wall, float(out.rsplit("rollout ", 1)[1]), cpu)

    def _run(self, arguments: list[str], more: dict[str, str]) -> tuple[float, float, str]:
        started = time.monotonic()
        process = subprocess.Popen(
            arguments, env={**os.environ, "HF_HUB_OFFLINE": "1", "NO_COLOR": "1", **more}, cwd=self.folder,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        spent = _Tree(process.pid)
        out, _ = process.communicate(timeout=900)
        assert process.returncode == 0, out[-4000:]
        return time.monotonic() - started, spent.seconds(), out


class _Tree:
    """CPU seconds of a process and all below it; what ends between two looks loses what it spent since the last."""

    def __init__(self, root: int) -> None:
        self._root, self._seen, self._ended = root, dict[int, float](), threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        mark: set[int] = {self._root}
        while not self._ended.wait(0.3):
            for process in psutil.process_iter(["pid", "ppid", "cpu_times"]):
                info = process.info
                if info["ppid"] in mark or info["pid"] in mark:
                    mark.add(info["pid"])
                    if info["cpu_times"]:
                        self._seen[info["pid"]] = info["cpu_times"].user + info["cpu_times"].system

    def seconds(self) -> float:
        self._ended.set()
        self._thread.join()
        return sum(self._seen.values())


def _batch_seconds(report: Any) -> float:
    """Of the rollout, wherever the report has it."""
    for stage in report["stages"]:
        if (seconds := stage.get("figures", {}).get("batch_seconds")) is not None:
            return float(seconds)
    raise KeyError("batch_seconds")


def measure(bench: Bench, pairs: int) -> bool:
    """Measure in turn and print; returns whether the goal is met."""
    found: list[tuple[Spent, Spent]] = []
    for number in range(pairs + 1):
        one, other = bench.ours(), bench.bare()
        print(
            f"stage 4 {one.wall:.1f} s (rollout {one.rollout:.1f} s, CPU {one.cpu:.1f} s), bare {other.wall:.1f} s "
            f"(rollout {other.rollout:.1f} s, CPU {other.cpu:.1f} s){'; not counted' if not number else ''}",
            flush=True,
        )
        if number:
            found.append((one, other))
    ratios = {
        name: statistics.median(getattr(one, name) / getattr(other, name) for one, other in found)
        for name in ("wall", "rollout", "cpu")
    }
    met = bool(ratios["wall"] <= GOAL)
    print(
        f"medians of {pairs} pairs, {PROMPTS} × {RUNS} runs of {TOKENS} tokens: wall {ratios['wall']:.2f} times the "
        f"bare script (goal: ≤ {GOAL}), the rollout {ratios['rollout']:.2f}, CPU {ratios['cpu']:.2f}: "
        f"{'met' if met else 'MISSED'}"
    )
    return met


def run(pairs: int = 3) -> bool:
    """On a server of its own; returns whether the goal is met."""
    python = vllm_python()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        weights = smollm2(python, folder)
        with serving(python, weights, folder, "--max-num-seqs", "64") as url:
            return measure(Bench(url, weights, folder), pairs)


if __name__ == "__main__":
    sys.exit(0 if run(int(sys.argv[1]) if len(sys.argv) > 1 else 3) else 1)
