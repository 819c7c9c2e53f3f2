"""What a driver is told: the job's file, and the environment in which it and the framework's workers run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.agent import rewards
from harness.agent.runner import MARK
from harness.agent.source import AgentSource
from harness.checks.samples import Sample
from harness.checks.stage4.data import Asked
from harness.openai_api.http import Endpoint

HERE = Path(__file__).parent
A_WEEK = 7 * 24 * 3600.0
# The environment is written onto command lines by AReaL's scheduler, and its workers need none of these.
WITHHELD = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "HF_TOKEN", "JSON")


@dataclass(frozen=True)
class Setup:
    """What to gather.

    Args:
        python: an interpreter that has the framework.
        config: the training configuration.
        settings: values that take the place of the configuration's, by their names with dots; AReaL's are those of the
            section ``rollout``.
        agent: None for the framework's own workflow with a reward function.
        reward: import path of that function.
        endpoint: the inference server.
        patience: seconds without any movement that are too many.
        start_seconds: until the first rollout; AReaL's imports take half a minute on a busy machine.
        record: keep the agents' calls.
        debugged: somebody steps through a worker, so nothing is ever too long; where a client is waited for.
        generate: verl's engine is asked by SGLang's route.
    """

    python: str
    config: Path
    settings: Mapping[str, Any]
    asked: Asked
    samples: tuple[Sample, ...]
    endpoint: Endpoint
    agent: AgentSource | None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    reward: str = ""
    search: tuple[Path, ...] = ()
    model: str = ""
    patience: float = 120.0
    start_seconds: float = 300.0
    record: bool = False
    debugged: str = ""
    generate: bool = False
    cwd: Path | None = None


def write_job(setup: Setup, folder: Path, port: int) -> Path:
    """The file that says to a driver what to do.

    Args:
        folder: for all that is written.
        port: of 127.0.0.1, where the inference server is reached.
    """
    is_verl = setup.asked.framework.key == "verl"
    work: dict[str, Any] = {
        "kind": setup.asked.kind,
        "samples": [sample.data for sample in setup.samples],
        "group_size": setup.asked.group_size,
    }
    if setup.agent is not None:
        work["agent"] = {
            "names": names_of(setup.agent, setup.cwd or Path.cwd()),
            "class": setup.agent.class_name,
            "file": None if setup.agent.path is None else str(setup.agent.path),
            "search": [str(place) for place in setup.agent.search],
            "arguments": dict(setup.arguments),
            "notes": str(folder / "notes.jsonl"),
            "rewards": str(Path(rewards.__file__).resolve()),
        }
    else:
        work["reward"] = setup.reward
    path = [str(HERE / "inside")] + ([str(place) for place in setup.search] if setup.agent is None else [])
    job: dict[str, Any] = {
        "config": str(setup.config),
        "set": dict(setup.settings),
        "folder": str(folder),
        "path": path,
    }
    if is_verl:
        work |= {"notes": str(folder / "notes.jsonl"), "rewards": str(Path(rewards.__file__).resolve())}
        job |= {
            "work": work,
            "server": {"address": f"http://127.0.0.1:{port}", "generate": setup.generate},
            "model": setup.model,
            "answer_seconds": A_WEEK if setup.debugged else setup.patience * 2,
        }
    else:
        job |= {"server": {"host": "127.0.0.1", "port": port}, "servers": 1, "work": [work]}
    file = folder / "job.json"
    file.write_text(json.dumps(job), encoding="utf-8")
    return file


def names_of(agent: AgentSource, cwd: Path) -> list[str]:
    """Names under which a training that starts here could import an agent's module."""
    names = [agent.module]
    if not agent.by_module and agent.path is not None and agent.path.is_relative_to(cwd):
        parts = agent.path.relative_to(cwd).with_suffix("").parts
        if all(part.isidentifier() for part in parts):
            names.append(".".join(parts))
    return list(dict.fromkeys(names))


def environment(base: Mapping[str, str], setup: Setup, mark: str, folder: Path) -> dict[str, str]:
    """The environment of the framework: what an agent is told here is what that tells it, and no key of ours."""
    kept = {name: value for name, value in base.items() if name not in WITHHELD}
    kept |= {
        MARK: mark,
        "OPENAI_MODEL": setup.model,
        "PYTHONUNBUFFERED": "1",
        "HF_HUB_OFFLINE": base.get("HF_HUB_OFFLINE", "1"),
        "TOKENIZERS_PARALLELISM": "false",
        # Trackers are imported by AReaL in any case, and are to write nowhere.
        "WANDB_MODE": "disabled",
        "SWANLAB_MODE": "disabled",
    }
    if setup.asked.framework.key == "verl":
        # A Ray of its own, whichever one the user's shell or `dev` belongs to, and all of its files in our folder.
        kept = {name: value for name, value in kept.items() if name not in ("RAY_ADDRESS", "RAY_JOB_ID")}
        kept |= {
            "RAY_DEDUP_LOGS": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
            # A raylet gives up on its own helpers after thirty seconds, which are few where others compute as well.
            "RAY_agent_register_timeout_ms": "180000",
            "HF_DATASETS_OFFLINE": "1",
            "HF_DATASETS_CACHE": str(folder / "datasets"),
            "DRYDOCK_BREAK": setup.debugged,
        }
    for name in ("NO_PROXY", "no_proxy"):
        kept[name] = ",".join(filter(None, [kept.get(name), "127.0.0.1", "localhost"]))
    return kept
