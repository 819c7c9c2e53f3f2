"""What a check puts into a verl configuration, and what of verl's it is to run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.agent.source import AgentSource
from harness.checks.lint.config import Config

_ROLLOUT = "actor_rollout_ref.rollout"
_MODEL = "actor_rollout_ref.model"
_REWARD = "reward.custom_reward_function"


def names_own_loop(config: Config) -> bool:
    """Whether the configuration itself says what runs: an agent loop of verl's registry, or a reward function."""
    names = (f"{_REWARD}.path", f"{_ROLLOUT}.agent.default_agent_loop", f"{_ROLLOUT}.agent.agent_loop_config_path")
    return any(config.get(name).given and config.get(name).text for name in names)


def put_in(
    config: Config, reward: AgentSource | None, group_size: int, folders: Sequence[Path], served: str | None
) -> dict[str, Any]:
    """What a check can't take from a training's configuration as it is.

    Args:
        reward: a reward function that takes the place of the configuration's.
        folders: where relative paths are looked for.
        served: folder of the model that the server serves, where that is known.
    """
    put: dict[str, Any] = {
        # Each is a process that imports all of verl.
        f"{_ROLLOUT}.agent.num_workers": 1,
        "reward.num_workers": 1,
        f"{_ROLLOUT}.n": group_size,
    }
    for name in (f"{_MODEL}.path", f"{_MODEL}.tokenizer_path"):
        entry = config.get(name)
        wanted = entry.text if entry.given else None
        if served and Path(served).is_dir() and (name.endswith(".path") or wanted) and not _is_folder(wanted):
            put[name] = served
    if reward is not None:
        put[f"{_REWARD}.path"] = str(reward.path)
        put[f"{_REWARD}.name"] = reward.class_name
    elif (path := config.get(f"{_REWARD}.path").text) is not None:
        found = next((one for folder in folders if (one := folder / path).is_file()), None)
        if found is not None and not Path(path).is_absolute():
            put[f"{_REWARD}.path"] = str(found.resolve())
    if config.get("reward.reward_model.enable").value is True:
        put["reward.reward_model.enable"] = False
    return put


def _is_folder(path: str | None) -> bool:
    return path is not None and Path(path).is_dir()
