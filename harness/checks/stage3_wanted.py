"""What stage 3 is to do, from the settings and a training configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.checks.lint import train_config
from harness.checks.stage3 import Simulation, Size
from harness.errors import BadSetting
from harness.openai_api.simulated import faults
from harness.settings import Settings

# A training's own numbers may be far beyond what one process can hold.
MOST_RUNS = 200_000


@dataclass(frozen=True)
class Wanted:
    """What is wanted.

    Args:
        simulation: None for the real server.
        config: where numbers were read, for the report.
    """

    size: Size = field(default_factory=Size)
    simulation: Simulation | None = None
    config: Path | None = None


def wanted(settings: Settings, folders: Sequence[Path]) -> Wanted:
    """Put settings and configuration together; a setting that somebody has given wins over the file.

    Raises:
        BadConfig: ``CONFIG`` names nothing that can be read.
        BadSetting: ``FAULTS`` can't be read, or has no simulated server to happen at; or the runs are too many.
    """
    config = train_config.read(train_config.find(settings.config, folders)) if settings.config else None

    def number(name: str) -> int:
        given: int = getattr(settings, name)
        if config is None or settings.origin(name) != "default":
            return given
        read: int | None = getattr(config, name)
        return given if read is None else read

    ranks = number("rollout_dp_size")
    in_flight = number("in_flight")
    if config is not None and config.in_flight is not None and settings.origin("in_flight") == "default":
        # The framework's limit is for all ranks together.
        in_flight = max(1, in_flight // ranks)
    size = Size(number("global_bs"), number("group_size"), ranks, in_flight)
    if size.runs > MOST_RUNS:
        raise BadSetting(
            f"GLOBAL_BS / ROLLOUT_DP_SIZE × GROUP_SIZE is {size.runs:,} runs; {MOST_RUNS:,} are the most",
            mend="GLOBAL_BS=256 GROUP_SIZE=8 ROLLOUT_DP_SIZE=4   # 512 runs",
        )
    asked_faults = faults.parse(settings.faults)
    if asked_faults and settings.server != "simulated":
        raise BadSetting("FAULTS is set, and the real server makes none on demand", mend="SERVER=simulated")
    simulation = None
    if settings.server == "simulated":
        simulation = Simulation(settings.latency, asked_faults, settings.faults)
    return Wanted(size, simulation, config.path if config else None)
