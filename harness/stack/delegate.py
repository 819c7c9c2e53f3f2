"""A verb that is typed on this machine and runs in the ``dev`` container, where the agent's own packages are."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from harness import docker_engine
from harness.docker_engine import Container
from harness.errors import BadSetting, ComposeFailed, DockerMissing, DockerUnreachable, StackDown
from harness.settings import Settings, environment_name, for_delegated
from harness.stack import beside, watched
from harness.stack.dev import WITH_ENV, dev_container, execute, kill_all
from harness.stack.paths import into_container

# What decides how a check goes; everything else the container knows better.
_LOAD = ("server", "faults", "latency", "config", "global_bs", "group_size", "rollout_dp_size", "in_flight")
_TAPES = ("record", "replay", "run")
_ROLLOUT = ("reward", "pause")
_PASSED_ON = (
    "stage",
    "agent",
    "data",
    "seed",
    "timeout",
    "model",
    *_TAPES,
    *_LOAD,
    *_ROLLOUT,
    "against",
    "json_output",
)


def delegate_check(settings: Settings, agent_args: str | None, *, framework: str | None = None) -> int | None:
    """Run ``harness check`` in ``dev``; returns its exit code, None where it has to run here.

    Args:
        framework: that stage 4 needs, where it is among the stages; where ``dev`` lacks it, a container like it has it.

    Raises:
        StackDown: the stack isn't up, and no server of one's own is named.
        CheckEnded: the check was killed or stopped.
    """
    try:
        client = docker_engine.connect()
        dev = dev_container(client, settings)
    except (StackDown, DockerMissing, DockerUnreachable):
        if settings.openai_base_url or settings.replay is not None or settings.server == "simulated":
            return None
        raise
    # Not above: what ends in the middle of a check is no reason to begin it again here.
    environment = {
        environment_name(field): _inside(settings, field) for field in _PASSED_ON if settings.origin(field) != "default"
    } | for_delegated(settings)
    arguments = ["harness", "check"] + (["--agent-args", agent_args] if agent_args else [])
    if framework is None or beside.has(client, dev, framework):
        return _watched(client, settings, dev, arguments, environment)
    with beside.beside_dev(client, settings, dev, framework) as container:
        return _watched(client, settings, container, arguments, environment)


def _watched(
    client: Any, settings: Settings, container: Container, arguments: Sequence[str], environment: Mapping[str, str]
) -> int:
    """Run a check, of which it is told here if its agent ends or stops it."""
    command = " ".join(arguments)
    watch = watched.Watch(
        lambda: watched.state_of(client, container, command), lambda: kill_all(container, "/harness check")
    )
    with watch.while_it_runs():
        code = execute(client, settings, arguments, environment=environment, container=container)
    watched.explain(code, watch)
    return code


def delegate(settings: Settings, verb: str, passed_on: Sequence[str], flags: Sequence[str] = ()) -> int:
    """Run a verb in ``dev``; returns its exit code.

    Raises:
        StackDown: the stack isn't up.
    """
    environment = {
        environment_name(field): into_container(settings, settings.shown(field))
        for field in passed_on
        if settings.origin(field) != "default"
    } | for_delegated(settings)
    return execute(docker_engine.connect(), settings, ["harness", verb, *flags], environment=environment)


def answer_from_dev(settings: Settings, arguments: Sequence[str], passed_on: Sequence[str]) -> tuple[int, Any]:
    """Run a verb with ``--json`` in ``dev``; returns its exit code and its document.

    Raises:
        StackDown: the stack isn't up.
        ComposeFailed: it answered no document.
    """
    container = dev_container(docker_engine.connect(), settings)
    environment = {environment_name(field): settings.shown(field) for field in passed_on}
    command = ["docker", "exec", *(part for name in environment for part in ("--env", name)), container.id]
    done = subprocess.run(
        [*command, WITH_ENV, "harness", *arguments, "--json"],
        env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError:
        raise ComposeFailed("The dev container gave no answer.", logs=done.stderr) from None


def _inside(settings: Settings, field: str) -> str:
    """A setting's value as the container understands it."""
    value = into_container(settings, settings.shown(field))
    if field in ("record", "replay") and value == settings.shown(field):
        raise BadSetting(
            f"{environment_name(field)}={value} is neither below the workspace nor below {settings.runs_dir}",
            consequence="The check runs in the dev container, which sees these two folders only.",
            mend=f"make check {environment_name(field)}=runs/NAME   # or run it here: .venv/bin/harness check --here",
        )
    return value
