"""How an engine is started and seen to work. What is particular to one arrives as data (harness/engines)."""

from __future__ import annotations

import os

from gateway.config import Config, ConfigError

# Agents under test fit into this; a larger window costs llama.cpp memory for every one of its slots.
DEFAULT_CONTEXT = 2048


def context_of(config: Config) -> int:
    """Tokens that a request may have."""
    return config.context or DEFAULT_CONTEXT


def all_cores_but_one() -> int:
    """How many threads generate unless told otherwise; the one is for the gateway, the client and everything else."""
    return max(1, len(os.sched_getaffinity(0)) - 1)


def command_of(config: Config) -> list[str]:
    """The engine's command line. The user's own flags come last: engines take the last of a flag that is given twice.

    Raises:
        ConfigError: a word asks for what the gateway doesn't know.
    """
    return [*(_filled(word, config) for word in config.start.command), *config.image_args, *config.engine_args]


def environment_of(config: Config) -> dict[str, str]:
    """What is set for the engine beside what the container has; raises as ``command_of``."""
    asked = config.start.with_threads if config.threads else {}
    return {name: _filled(text, config) for name, text in {**config.start.environment, **asked}.items()}


def _filled(text: str, config: Config) -> str:
    known = {
        "python": config.engine_python,
        "model": config.model_path,
        "name": config.served_name,
        "port": str(config.engine_port),
        "context": str(context_of(config)),
        "threads": str(config.threads or all_cores_but_one()),
    }
    try:
        return text.format_map(known)
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        what = f"known: {', '.join(known)}"
        raise ConfigError(f"ENGINE_START has {text!r}, which can't be filled in ({error}); {what}.") from None


def sum_counters(metrics: str, names: tuple[str, ...]) -> float | None:
    """Add up the named counters of a Prometheus text page, over all their labels; None when there is none of them."""
    total: float | None = None
    for line in metrics.splitlines():
        name = line.partition(" ")[0].partition("{")[0]
        if name in names:
            total = (total or 0.0) + float(line.rpartition(" ")[2])
    return total
