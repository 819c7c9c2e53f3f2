"""What stage 4 is to do, from the settings and the training configuration."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from harness.agent.source import AgentSource, locate_function
from harness.checks.lint import areal_rules, train_config
from harness.checks.lint.config import Config, read
from harness.checks.stage4 import support, verl_wanted
from harness.checks.stage4.frameworks import AREAL, VERL, Framework
from harness.errors import BadConfig, BadSetting, LibraryMissing
from harness.settings import Settings

# A check on a CPU is to take minutes. More than this many of a training's prompts are checked where somebody says so.
MOST_PROMPTS = 16
# Until the first rollout: three processes that each import AReaL, a minute each where others compute as well.
START_SECONDS = 900.0
DEBUGGER = "127.0.0.1:5688"
# Where the stack shows a container the weights that the server serves.
MODEL_FOLDER = "DRYDOCK_MODEL_FOLDER"


@dataclass(frozen=True)
class Wanted:
    """What is wanted.

    Args:
        config: the training configuration, read as the lint reads it.
        python: an interpreter that has AReaL.
        prompts, group_size: size of the batch.
        of_prompts: the training's own number of prompts.
        settings: what takes the place of values of the section ``rollout``.
        reward: a reward function for AReaL's RLVRWorkflow or verl's own agent loop; None checks the agent.
        framework: whose configuration it is.
        own_loop: verl's own agent loop runs, not the agent.
        patience: seconds without movement that are too many.
        debugged: the worker starts under a debugger and waits for a client.
    """

    config: Config
    python: str
    prompts: int
    group_size: int
    of_prompts: int
    settings: dict[str, Any] = field(default_factory=dict)
    reward: AgentSource | None = None
    patience: float = 120.0
    start_seconds: float = START_SECONDS
    debugged: bool = False
    framework: Framework = AREAL
    own_loop: bool = False

    @property
    def kind(self) -> Literal["agent", "rlvr", "loop"]:
        """What is run."""
        if self.framework.key == "verl":
            return "loop" if self.own_loop else "agent"
        return "agent" if self.reward is None else "rlvr"

    @property
    def scheduler(self) -> str | None:
        """The configuration's scheduler."""
        return self.config.get("scheduler.type").text

    @property
    def pair(self) -> support.Pair:
        """What AReaL says to this scheduler with this workflow."""
        return support.pair(self.scheduler, "agent" if self.reward is None else "rlvr")


def wanted(settings: Settings, folders: Sequence[Path]) -> Wanted:
    """Put settings and configuration together.

    Raises:
        BadConfig: ``CONFIG`` names none, or one that its framework could not roll out with.
        LibraryMissing: the framework isn't there.
    """
    if not settings.config:
        raise BadSetting(
            "stage 4 needs the training configuration, and CONFIG is not set", mend="CONFIG=training/areal.yaml"
        )
    if settings.replay is not None:
        raise BadSetting(
            "stage 4 asks a framework and a server, and REPLAY does without both",
            mend=f"make check STAGE=3 REPLAY={settings.replay}   # replays what stage 4 recorded",
        )
    path = train_config.find(settings.config, folders)
    config = read(path)
    if config.framework == "verl":
        return _of_verl(config, settings, folders)
    if not config.section("rollout"):
        raise BadConfig(f"CONFIG={settings.config} has no section rollout: there is nothing to roll out with")
    if not support.known_scheduler(config.get("scheduler.type").text):
        known = ", ".join(dict.fromkeys(one.scheduler for one in support.MATRIX))
        raise BadConfig(
            f"CONFIG={settings.config}, line {config.line('scheduler.type')}: AReaL has no scheduler "
            f"{config.get('scheduler.type').text!r}",
            mend=f"scheduler.type: one of {known}",
        )
    prompts, of_prompts, group_size = _sizes(config, settings)
    debugged = settings.pause
    return Wanted(
        config=config,
        python=_interpreter(settings, AREAL),
        prompts=prompts,
        group_size=group_size,
        of_prompts=of_prompts,
        settings=_put_in(config, settings, debugged),
        reward=locate_function(settings.reward, folders) if settings.reward else None,
        patience=settings.timeout,
        start_seconds=max(START_SECONDS, settings.timeout),
        debugged=debugged,
    )


def _of_verl(config: Config, settings: Settings, folders: Sequence[Path]) -> Wanted:
    prompts, of_prompts, group_size = _sizes(config, settings)
    reward = locate_function(settings.reward, folders) if settings.reward else None
    agent_is_named = settings.origin("agent") != "default"
    return Wanted(
        config=config,
        python=_interpreter(settings, VERL),
        prompts=prompts,
        group_size=group_size,
        of_prompts=of_prompts,
        settings=verl_wanted.put_in(config, reward, group_size, folders, os.environ.get(MODEL_FOLDER)),
        reward=reward,
        patience=settings.timeout,
        start_seconds=max(START_SECONDS, settings.timeout),
        debugged=settings.pause,
        framework=VERL,
        own_loop=reward is not None or (not agent_is_named and verl_wanted.names_own_loop(config)),
    )


def _sizes(config: Config, settings: Settings) -> tuple[int, int, int]:
    """Prompts that are rolled out, prompts of a training's batch, runs of each."""
    sizes = train_config.read(config.path)

    def number(name: str, read: int | None, default: int) -> int:
        given: int = getattr(settings, name)
        return given if settings.origin(name) != "default" else read or default

    of_prompts = number("global_bs", sizes.global_bs, MOST_PROMPTS)
    prompts = of_prompts if settings.origin("global_bs") != "default" else min(of_prompts, MOST_PROMPTS)
    return prompts, of_prompts, number("group_size", sizes.group_size, 1)


def _interpreter(settings: Settings, framework: Framework) -> str:
    """An interpreter that has the framework: the one that was named, or this one.

    Raises:
        LibraryMissing: neither has it.
    """
    name = f"{framework.key}_python"
    named: Path | None = getattr(settings, name)
    if named is not None:
        python = named.expanduser()
        if not os.access(python, os.X_OK):
            raise BadSetting(f"{name.upper()}={named} is no program that can be started")
        return str(python)
    # By what is installed: a folder of that name beside the agent is not the framework.
    with contextlib.suppress(metadata.PackageNotFoundError):
        metadata.version(framework.key)
        return sys.executable
    raise LibraryMissing(
        f"stage 4 needs {framework.name}, and this Python doesn't have it",
        consequence="The stages before it don't.",
        mend=f"make check STAGE=4   # in the stack, in an image that has it; or {name.upper()}=PYTHON that has it",
    )


def _put_in(config: Config, settings: Settings, debugged: bool) -> dict[str, Any]:
    """What a check can't take from a training's configuration as it is."""
    a_week = 7 * 24 * 3600
    put: dict[str, Any] = {}
    request = config.get("rollout.request_timeout", 3600).number
    if debugged:
        put["request_timeout"] = put["setup_timeout"] = a_week
        put["scheduling_spec.0.cmd"] = (
            f"python3 -Xfrozen_modules=off -m debugpy --listen {DEBUGGER} --wait-for-client"
            " --configure-subProcess false"
            " -m areal.infra.rpc.rpc_server"
        )
    elif request is None or request > settings.timeout * 2:
        # Longer than we look on, so that what hangs is seen where it hangs.
        put["request_timeout"] = settings.timeout * 2
    if config.get("rollout.agent.admin_api_key", areal_rules.DEFAULT_KEY).value == areal_rules.DEFAULT_KEY:
        put["agent.admin_api_key"] = secrets.token_hex(16)
    tokenizer = config.get("rollout.tokenizer_path", "").text or ""
    others = [config.get(name).text for name in ("actor.path", "tokenizer_path")]
    served = os.environ.get(MODEL_FOLDER)
    if tokenizer and (Path(tokenizer).is_dir() or not served):
        pass
    elif served and Path(served).is_dir():
        put["tokenizer_path"] = served
    elif not tokenizer and (known := next(filter(None, others), None)):
        put["tokenizer_path"] = known
    return put


def backend(text: str | None, has_generate: bool) -> str:
    """AReaL's client for the server that is there, as one server.

    Args:
        text: the configuration's backend.
        has_generate: the server has SGLang's own route.
    """
    engine = (text or "").partition(":")[0].strip()
    return "sglang:d1" if engine == "sglang" and has_generate else "vllm:d1"
