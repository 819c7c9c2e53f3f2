"""``harness check``: check a server and an agent in stages."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Any

import click

from harness import console
from harness.agent.runner import Limits
from harness.checks import against, run, show, show_against
from harness.checks.lint import train_config
from harness.checks.lint.config import read_any
from harness.checks.report import CheckReport
from harness.checks.stage3_wanted import wanted
from harness.cli.next_steps import as_typed_here, command_line, typed
from harness.cli.options import json_option, setting_option
from harness.errors import BadConfig, BadSetting, NoServerNamed
from harness.openai_api.http import Endpoint
from harness.places import in_container
from harness.runs import Redactor, RunFolder, index, shown
from harness.runs.environment import of_this_process, secrets_of
from harness.settings import Settings, load_settings

_A_WEEK = 7 * 24 * 3600.0
# What decides what is checked, and how; RECORD isn't among it, for it names a new folder.
_SAMPLE_CONFIG = "training/areal.yaml"
_REPEATED = (
    "agent", "data", "model", "timeout", "server", "faults", "latency", "config", "global_bs", "group_size",
    "rollout_dp_size", "in_flight", "reward", "areal_python", "verl_python", "openai_base_url", "replay", "run",
)  # fmt: skip


@click.command("check")
@setting_option("stage")
@setting_option("agent")
@setting_option("data")
@setting_option("seed")
@setting_option("timeout")
@setting_option("model")
@setting_option("record")
@setting_option("replay")
@setting_option("run")
@setting_option("against")
@setting_option("server")
@setting_option("faults")
@setting_option("latency")
@setting_option("config")
@setting_option("global_bs")
@setting_option("group_size")
@setting_option("rollout_dp_size")
@setting_option("in_flight")
@setting_option("reward")
@setting_option("pause")
@setting_option("areal_python")
@setting_option("verl_python")
@click.option("--agent-args", help="keyword arguments for the agent's __init__, as a JSON object")
@click.option("--base-url", "openai_base_url", help="the server, with /v1; default: the stack's")
@click.option("--api-key-file", type=click.Path(path_type=Path), help="file with the server's key")
@click.option("--here", is_flag=True, help="run in this Python rather than in the stack's dev container")
@json_option
def command(agent_args: str | None, api_key_file: Path | None, here: bool, **flags: Any) -> int:
    """Check an agent in stages: 1 the server, 2 one run, 3 many runs at once, 4 in AReaL's or verl's rollout.

    Where the stack is up, the check runs in its dev container, as training will; else here, against --base-url.

    Exits with 0 where all is fine, 1 where something checked is not, 2 on wrong usage, 3 where the environment is not
    fit.
    """
    settings = load_settings(flags)
    if settings.json_output:
        console.to_stderr()
    stages = _stages(settings)
    settings = _with_sample(settings, stages)
    if not (here or flags["openai_base_url"] or api_key_file or in_container()):
        code = _in_the_stack(settings, agent_args, framework=_framework(settings) if 4 in stages else None)
        if code is not None:
            return code
        console.aside(f"no stack is up: checked here, in {sys.prefix}, where your packages may not be")
    folders = tuple(dict.fromkeys([Path.cwd(), settings.workspace]))
    load = wanted(settings, folders)
    areal = _in_areal(settings, folders) if 4 in stages else None
    endpoint = _endpoint(settings, api_key_file, stages)
    request = run.Request(
        stages=stages,
        endpoint=endpoint,
        model=_wanted_model(settings),
        agent=settings.agent,
        data=settings.data,
        seed=settings.seed,
        limits=_limits(settings),
        folders=folders,
        arguments=run.parse_arguments(agent_args),
        record=settings.record,
        replay=settings.replay,
        run=settings.run,
        load=load,
        areal=areal,
    )
    prepared = run.prepare(request)
    earlier = against.read(index.find(settings.runs_dir, settings.against)) if settings.against else None
    with RunFolder.create(settings.runs_dir, "check", _redactor(settings, endpoint)) as folder:
        repeated = typed(settings, _REPEATED)
        with show.Progress(lambda step: as_typed_here(step, repeated)) as progress:
            listener = run.Listener(progress.begins, progress.tells, progress.ends)
            report = run.check(request, prepared, folder, listener=listener, fingerprint=of_this_process)
    index.write_page(settings.runs_dir)
    show.summary(
        report, folder.path, next_steps=next_steps(report, settings, _further_flags(agent_args, api_key_file, here))
    )
    if earlier is not None:
        comparison = against.compare(earlier, against.read(folder.path))
        folder.write_text("against.html", show_against.page(comparison))
        folder.write_json("against.json", comparison.as_dict())
        show_against.lines(comparison)
    if settings.json_output:
        console.emit_json({**folder.redactor.data(report.model_dump(mode="json")), "folder": shown(folder.path)})
    return report.exit_code


def _with_sample(settings: Settings, stages: tuple[int, ...]) -> Settings:
    """The sample agent goes with its sample configuration, as with its data: stage 4 can't do without one."""
    named = settings.config or settings.origin("agent") != "default"
    if 4 not in stages or named or not (settings.workspace / _SAMPLE_CONFIG).is_file():
        return settings
    return settings.but(config=_SAMPLE_CONFIG)


def _in_areal(settings: Settings, folders: tuple[Path, ...]) -> Any:
    from harness.checks.stage4.wanted import wanted

    return wanted(settings, folders)


def _framework(settings: Settings) -> str:
    """Whose configuration it is; AReaL's where that can't be told from here, for the check itself says why."""
    try:
        config = train_config.find(settings.config, (Path.cwd(), settings.workspace))
        return "verl" if read_any(config).framework == "verl" else "areal"
    except BadConfig:
        return "areal"


def _in_the_stack(settings: Settings, agent_args: str | None, *, framework: str | None) -> int | None:
    """Run the check in the stack's dev container; None where there is no stack and none is needed."""
    try:
        # A bare wheel has no Docker SDK; then there is no stack to hand on to.
        from harness.stack.delegate import delegate_check
    except ImportError:
        return None
    return delegate_check(settings, agent_args, framework=framework)


def _limits(settings: Settings) -> Limits:
    if {"debugpy", "pydevd"} & set(sys.modules):
        # Somebody steps through the agent: its process is debugged with ours, and nobody wants to be cut off there.
        return Limits(run=_A_WEEK, load=_A_WEEK)
    return Limits(run=settings.timeout, load=max(settings.timeout, 60.0))


def _stages(settings: Settings) -> tuple[int, ...]:
    """The wanted stages; those that need no server where a recording takes its place and nobody named any."""
    stages = run.parse_stages(settings.stage)
    if settings.replay is not None and settings.origin("stage") == "default":
        return tuple(stage for stage in stages if stage != 1)
    return stages


def _endpoint(settings: Settings, api_key_file: Path | None, stages: tuple[int, ...]) -> Endpoint:
    if settings.replay is not None or (settings.server == "simulated" and stages == (3,)):
        return Endpoint("", "")  # nobody is asked
    if settings.openai_base_url is None:
        raise NoServerNamed("no server is named: OPENAI_BASE_URL isn't set")
    key = settings.openai_api_key.get_secret_value() if settings.openai_api_key else ""
    if api_key_file is not None:
        try:
            key = api_key_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BadSetting(f"--api-key-file {api_key_file} can't be read: {error}") from None
    return Endpoint.parse(settings.openai_base_url, key)


def _wanted_model(settings: Settings) -> str:
    """The model that somebody asked for; empty lets the server's own list decide."""
    return settings.model if settings.origin("model") != "default" else os.environ.get("OPENAI_MODEL", "")


def _redactor(settings: Settings, endpoint: Endpoint) -> Redactor:
    token = settings.hf_token.get_secret_value() if settings.hf_token else None
    return Redactor([endpoint.api_key, token, *secrets_of(dict(os.environ))])


def next_steps(report: CheckReport, settings: Settings, flags: str = "") -> list[str]:
    """What to type next, about the same agent, server and load.

    Args:
        flags: further flags of the command that have no name for make.
    """
    repeated = typed(settings, _REPEATED)

    def again(comment: str, **changed: object) -> str:
        values = {**repeated, **changed}
        values |= {"openai_base_url": url} if (url := values.pop("openai_base_url", None)) else {}  # it is long
        line = command_line("check", values, by_make=False if flags else None)
        return f"{line}{flags}   # {comment}"

    there = (settings.workspace / _SAMPLE_CONFIG).is_file()
    sample = _SAMPLE_CONFIG if there else "YOUR_TRAINING.yaml"
    last = max((stage.stage for stage in report.stages), default=1)
    if report.ended_early or report.exit_code:
        return [again("once what is marked ✗ is mended", stage=last, seed=report.seed)]
    if last < 2:
        return [again("one run of the agent", stage=2)]
    if settings.replay is not None:
        return []
    if last == 3 and repeated.get("server") == "simulated":
        for name in ("server", "faults", "latency"):
            repeated.pop(name, None)
        return [again("against the real server", stage=3)]
    if last == 3 and not {"config", "global_bs", "group_size"} & set(repeated):
        return [again("with the numbers of your training", stage=3, config=sample)]
    if last == 3:
        return [again("in the rollout of AReaL or verl", stage=4, config=repeated.get("config", sample))]
    if last == 2 and settings.origin("agent") == "default":
        return [again("your own", agent="path/to/my_agent.py:MyAgent", data="my.jsonl")]
    if last == 2:
        return [again("many runs at once", stage=3)]
    return []


def _further_flags(agent_args: str | None, api_key_file: Path | None, here: bool) -> str:
    flags = f" --agent-args {shlex.quote(agent_args)}" if agent_args else ""
    flags += f" --api-key-file {shlex.quote(str(api_key_file))}" if api_key_file else ""
    return flags + " --here" * here
