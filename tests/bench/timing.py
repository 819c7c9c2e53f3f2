"""Times two commands in turn (A B A B …), so that a machine whose speed drifts treats both alike."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Command:
    """A command to time."""

    name: str
    arguments: Sequence[str]
    environment: dict[str, str]
    folder: Path


@dataclass(frozen=True)
class Figures:
    """Wall seconds of one command's runs."""

    name: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def __str__(self) -> str:
        spread = f"{min(self.seconds):.2f} to {max(self.seconds):.2f}, {len(self.seconds)} runs"
        return f"{self.name}: median {self.median:.2f} s ({spread})"


def in_turn(first: Command, second: Command, runs: int) -> tuple[Figures, Figures, float]:
    """Figures of both, and the median of the ratios first/second pair by pair, after one uncounted run of each."""
    once(first)
    once(second)
    pairs = [(once(first), once(second)) for _ in range(runs)]
    ratio = statistics.median(a / b for a, b in pairs)
    return Figures(first.name, tuple(a for a, _ in pairs)), Figures(second.name, tuple(b for _, b in pairs)), ratio


def once(command: Command) -> float:
    """Run a command to its end; a failed one ends the benchmark, for its time would mean nothing."""
    started = time.monotonic()
    subprocess.run(
        command.arguments, env=command.environment, cwd=command.folder, check=True, capture_output=True, timeout=600
    )
    return time.monotonic() - started


def machine() -> str:
    """What the figures were measured on."""
    load = os.getloadavg()[0]
    model = next(
        (
            text.partition(":")[2].strip()
            for text in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in text
        ),
        "unknown processor",
    )
    return f"{os.cpu_count()} cores ({model}), load {load:.1f}, {time.strftime('%Y-%m-%d')}"
