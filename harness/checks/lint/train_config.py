"""The few numbers of a training configuration that decide how many runs are in flight.

AReaL's and verl's files are read as the lint reads them, without the framework and without trusting them. What a file
leaves open stays None, for its default is the framework's business; ``${section.key}`` is followed where it leads to a
plain value in the same file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.checks.lint.config import UNKNOWN, Config, Framework, read_any
from harness.errors import BadConfig
from harness.places import shown

# The data-parallel part of an allocation such as sglang:d4p1t1, vllm.d2t2 or sglang:d4+fsdp:d8.
_DATA_PARALLEL = re.compile(r"(?<=[:.\d])d(\d+)")


@dataclass(frozen=True)
class TrainConfig:
    """What a training configuration says about the size of a rollout.

    Args:
        path: the file.
        framework: whose it is; ``plain`` where it only has our own names.
        global_bs: prompts of one training step, over all data-parallel ranks.
        group_size: runs for each prompt.
        rollout_dp_size: data-parallel ranks of the rollout; each takes an equal share of the prompts.
        in_flight: the most runs at once that the framework allows in all; None where it says nothing.
    """

    path: Path
    framework: Framework
    global_bs: int | None = None
    group_size: int | None = None
    rollout_dp_size: int | None = None
    in_flight: int | None = None


def find(given: str, folders: Sequence[Path]) -> Path:
    """The file that ``CONFIG=`` names, looked for as the agent and the data are.

    Raises:
        BadConfig: there is none.
    """
    wanted = Path(given).expanduser()
    for candidate in [wanted] if wanted.is_absolute() else [folder / wanted for folder in folders]:
        if candidate.is_file():
            return candidate.resolve()
    raise BadConfig(f"there is no file CONFIG={given}", consequence=f"Looked in {', '.join(map(shown, folders))}.")


def read(path: Path) -> TrainConfig:
    """Read a training configuration.

    Raises:
        BadConfig: there is no such file, it is no YAML mapping, or a number in it is none.
    """
    config = read_any(path)
    if config.framework == "verl":
        return TrainConfig(
            path,
            "verl",
            global_bs=count(config, "data.train_batch_size"),
            group_size=count(config, "actor_rollout_ref.rollout.n"),
            rollout_dp_size=_verl_ranks(config),
        )
    if config.framework == "areal" or any(map(config.section, ("rollout", "gconfig"))):
        return TrainConfig(
            path,
            "areal",
            global_bs=count(config, "train_dataset.batch_size"),
            group_size=count(config, "gconfig.n_samples"),
            rollout_dp_size=_areal_ranks(config),
            in_flight=count(config, "rollout.max_concurrent_rollouts"),
        )
    return TrainConfig(
        path,
        "plain",
        global_bs=count(config, "global_bs"),
        group_size=count(config, "group_size"),
        rollout_dp_size=count(config, "rollout_dp_size"),
        in_flight=count(config, "in_flight"),
    )


def count(config: Config, name: str) -> int | None:
    """The value as a number of at least 1; None where it is left open or can't be known from this file.

    Raises:
        BadConfig: it is no such number.
    """
    value = config.get(name).value
    if value is None or value is UNKNOWN:
        return None
    try:
        number = int(value) if not isinstance(value, (bool, float)) or value == int(value) else 0
    except (TypeError, ValueError, OverflowError):
        number = 0
    if number < 1 or isinstance(value, bool):
        shown = repr(value) if isinstance(value, (str, int, float)) else "a section"
        raise BadConfig(
            f"CONFIG={config.path}, line {config.line(name)}: {name} is {shown}, not a number of at least 1"
        )
    return number


def _areal_ranks(config: Config) -> int | None:
    """Data-parallel ranks of AReaL's inference engine: its backend, or the first part of the allocation."""
    for name in ("rollout.backend", "allocation_mode"):
        text = config.get(name).text
        if text is not None and (found := _DATA_PARALLEL.search(text.strip().split("+")[0])):
            return int(found[1])
    return None


def _verl_ranks(config: Config) -> int | None:
    """All GPUs, divided by those that one copy of the model takes."""
    given = count(config, "actor_rollout_ref.rollout.data_parallel_size")
    gpus, nodes = count(config, "trainer.n_gpus_per_node"), count(config, "trainer.nnodes")
    if gpus is None:
        return given
    taken = (count(config, "actor_rollout_ref.rollout.tensor_model_parallel_size") or 1) * (
        count(config, "actor_rollout_ref.rollout.pipeline_model_parallel_size") or 1
    )
    return max(1, gpus * (nodes or 1) // taken)
