"""What is particular to each engine: its command line and the counters that tell whether it works.

A new engine is one more entry in ENGINES (and in refusals.TABLES).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from gateway.config import Config

# Agents under test fit into this; a larger window costs llama.cpp memory for every one of its slots.
DEFAULT_CONTEXT = 2048


@dataclass(frozen=True)
class Engine:
    """One kind of engine."""

    name: str
    command: Callable[[Config], list[str]]
    environment: Callable[[Config], dict[str, str]]
    counters: tuple[str, ...]  # metric names whose sum grows while the engine works
    version_distributions: tuple[str, ...]  # installed distributions that carry its version


def context_of(config: Config) -> int:
    """Tokens that a request may have."""
    return config.context or DEFAULT_CONTEXT


def all_cores_but_one() -> int:
    """How many threads generate unless told otherwise; the one is for the gateway, the client and everything else."""
    return max(1, len(os.sched_getaffinity(0)) - 1)


def _llamacpp_command(config: Config) -> list[str]:
    return [
        config.engine_python, config.llamacpp_server,
        "--model", config.model_path,
        "--alias", config.served_name,
        "--port", str(config.engine_port),
        "--context", str(context_of(config)),
        "--threads", str(config.threads or all_cores_but_one()),
        *config.image_args,
        *config.engine_args,
    ]  # fmt: skip


def _vllm_command(config: Config) -> list[str]:
    return [
        config.engine_python, "-m", "vllm.entrypoints.cli.main", "serve", config.model_path,
        "--served-model-name", config.served_name,
        "--host", "127.0.0.1",
        "--port", str(config.engine_port),
        "--max-model-len", str(context_of(config)),
        "--enable-auto-tool-choice", "--tool-call-parser", "hermes",
        *config.image_args,
        *config.engine_args,
    ]  # fmt: skip


def _sglang_command(config: Config) -> list[str]:
    return [
        config.engine_python, "-m", "sglang.launch_server",
        "--model-path", config.model_path,
        "--served-model-name", config.served_name,
        "--host", "127.0.0.1",
        "--port", str(config.engine_port),
        "--context-length", str(context_of(config)),
        "--enable-metrics",
        *config.image_args,
        *config.engine_args,
    ]  # fmt: skip


def _llamacpp_environment(_config: Config) -> dict[str, str]:
    return {}


def _vllm_environment(config: Config) -> dict[str, str]:
    # Weights come from the mounted folder, never from a hub behind the user's back; nothing is reported home.
    environment = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    if config.threads:
        # By itself vLLM's CPU build pins its threads to all cores but one; a number asked for is meant unpinned.
        environment |= {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": str(config.threads)}
    return environment


def _sglang_environment(_config: Config) -> dict[str, str]:
    return {"HF_HUB_OFFLINE": "1"}


ENGINES = {
    "llamacpp": Engine(
        name="llamacpp",
        command=_llamacpp_command,
        environment=_llamacpp_environment,
        counters=("llamacpp:n_decode_total",),
        version_distributions=("xllamacpp",),
    ),
    "vllm": Engine(
        name="vllm",
        command=_vllm_command,
        environment=_vllm_environment,
        counters=("vllm:generation_tokens_total", "vllm:prompt_tokens_total"),
        version_distributions=("vllm", "vllm-cpu"),
    ),
    "sglang": Engine(
        name="sglang",
        command=_sglang_command,
        environment=_sglang_environment,
        counters=("sglang:generation_tokens_total", "sglang:prompt_tokens_total"),
        version_distributions=("sglang",),
    ),
}


def sum_counters(metrics: str, names: tuple[str, ...]) -> float | None:
    """Add up the named counters of a Prometheus text page, over all their labels; None when there is none of them."""
    total: float | None = None
    for line in metrics.splitlines():
        name = line.partition(" ")[0].partition("{")[0]
        if name in names:
            total = (total or 0.0) + float(line.rpartition(" ")[2])
    return total
