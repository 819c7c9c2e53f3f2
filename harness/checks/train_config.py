"""The few numbers of a training configuration that decide how many runs are in flight.

AReaL's and verl's files are read as plain YAML, without the framework. What a file leaves open stays None, for its
default is the framework's business; ``${section.key}`` is followed where it leads to a plain value in the same file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from harness.errors import BadConfig

Framework = Literal["areal", "verl", "plain"]

_REFERENCE = re.compile(r"\$\{([\w.]+)\}")
# The data-parallel part of an allocation such as sglang:d4p1t1, vllm.d2t2 or sglang:d4+fsdp:d8.
_DATA_PARALLEL = re.compile(r"(?<=[:.\d])d(\d+)")


@dataclass(frozen=True)
class TrainConfig:
    """What a training configuration says about the size of a rollout.

    Args:
        path: the file.
        framework: whose it is; ``plain`` where it only has our own names.
        values: the whole file as it was read, references followed where they can be.
        global_bs: prompts of one training step, over all data-parallel ranks.
        group_size: runs for each prompt.
        rollout_dp_size: data-parallel ranks of the rollout; each takes an equal share of the prompts.
        in_flight: the most runs at once that the framework allows in all; None where it says nothing.
    """

    path: Path
    framework: Framework
    values: Mapping[str, Any] = field(repr=False)
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
    raise BadConfig(f"there is no file CONFIG={given}", consequence=f"Looked in {', '.join(map(str, folders))}.")


def read(path: Path) -> TrainConfig:
    """Read a training configuration.

    Raises:
        BadConfig: there is no such file, it is no YAML mapping, or a number in it is none.
    """
    values = load(path)
    get = Lookup(path, values)
    if "actor_rollout_ref" in values:
        return TrainConfig(
            path,
            "verl",
            values,
            global_bs=get.count("data.train_batch_size"),
            group_size=get.count("actor_rollout_ref.rollout.n"),
            rollout_dp_size=_verl_ranks(get),
        )
    if "rollout" in values or "gconfig" in values or "allocation_mode" in values:
        return TrainConfig(
            path,
            "areal",
            values,
            global_bs=get.count("train_dataset.batch_size"),
            group_size=get.count("gconfig.n_samples"),
            rollout_dp_size=_areal_ranks(get),
            in_flight=get.count("rollout.max_concurrent_rollouts"),
        )
    return TrainConfig(
        path,
        "plain",
        values,
        global_bs=get.count("global_bs"),
        group_size=get.count("group_size"),
        rollout_dp_size=get.count("rollout_dp_size"),
        in_flight=get.count("in_flight"),
    )


def load(path: Path) -> dict[str, Any]:
    """A YAML file that holds a mapping.

    Raises:
        BadConfig: it can't be read, or holds something else.
    """
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadConfig(f"CONFIG={path} can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise BadConfig(f"CONFIG={path} is no text: byte {error.start + 1} is no UTF-8") from None
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())[:200]
        raise BadConfig(f"CONFIG={path} is no YAML: {problem}") from None
    if not isinstance(values, dict):
        raise BadConfig(f"CONFIG={path} holds no mapping, but {type(values).__name__}")
    return {str(name): value for name, value in values.items()}


class Lookup:
    """Values of nested mappings by their path, ``rollout.backend``."""

    def __init__(self, path: Path, values: Mapping[str, Any]) -> None:
        self._path, self._values = path, values

    def value(self, name: str) -> Any:
        """The value, or None; a value that is one reference is followed."""
        return self._follow(name, 5)

    def count(self, name: str) -> int | None:
        """The value as a number of at least 1; None where it is left open or can't be known from this file.

        Raises:
            BadConfig: it is no such number.
        """
        value = self.value(name)
        if value is None or (isinstance(value, str) and ("${" in value or value == "???")):
            return None
        try:
            number = int(value) if not isinstance(value, (bool, float)) or value == int(value) else 0
        except (TypeError, ValueError):
            number = 0
        if number < 1 or isinstance(value, bool):
            raise BadConfig(f"CONFIG={self._path}: {name} is {value!r}, not a number of at least 1")
        return number

    def _follow(self, name: str, depth: int) -> Any:
        value: Any = self._values
        for part in name.split("."):
            if not isinstance(value, Mapping):
                return None
            value = value.get(part)
        if isinstance(value, str) and depth and (reference := _REFERENCE.fullmatch(value.strip())):
            return self._follow(reference[1], depth - 1)
        return value


def _areal_ranks(get: Lookup) -> int | None:
    """Data-parallel ranks of AReaL's inference engine: its backend, or the first part of the allocation."""
    for name in ("rollout.backend", "allocation_mode"):
        text = get.value(name)
        if isinstance(text, str) and (found := _DATA_PARALLEL.search(text.strip().split("+")[0])):
            return int(found[1])
    return None


def _verl_ranks(get: Lookup) -> int | None:
    """All GPUs, divided by those that one copy of the model takes."""
    given = get.count("actor_rollout_ref.rollout.data_parallel_size")
    gpus, nodes = get.count("trainer.n_gpus_per_node"), get.count("trainer.nnodes")
    if gpus is None:
        return given
    taken = (get.count("actor_rollout_ref.rollout.tensor_model_parallel_size") or 1) * (
        get.count("actor_rollout_ref.rollout.pipeline_model_parallel_size") or 1
    )
    return max(1, gpus * (nodes or 1) // taken)
