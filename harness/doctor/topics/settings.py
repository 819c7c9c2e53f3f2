"""Settings: values that can't be used, and values that take effect without having been typed."""

from __future__ import annotations

import os
import shlex

from rich.filesize import decimal

from harness.doctor.check import Check
from harness.doctor.context import Context
from harness.doctor.findings import Finding, note, of_error, ok, warn
from harness.doctor.model import Model
from harness.errors import DrydockError
from harness.settings import Settings, environment_name
from harness.stack.plan import make_plan, unwritable

# These have a meaning with ENGINE=external only; SDKs read them too, so that many people have them exported.
OF_EXTERNAL = ("openai_base_url", "openai_api_key")
# These belong to this call of the doctor.
OF_THE_CALL = ("topic", "json_output")


def decide_origins(settings: Settings) -> list[Finding]:
    """Exported variables and drydock.env, each with its value."""
    findings, from_file = [], []
    for field, value in settings.changed().items():
        name, origin = environment_name(field), settings.origin(field)
        if field in OF_THE_CALL or (field in OF_EXTERNAL and settings.engine != "external"):
            continue
        if field == "ray_port" and not settings.share:
            findings.append(note(f"{name}={value} has no effect without SHARE=."))
            continue
        if origin == "environment":
            text = f"{name}={value} comes from the environment and takes effect unless {name}= is typed."
            findings.append(note(text, mend=f"unset {name}   # for the default"))
        elif origin == "drydock.env":
            from_file.append(f"{name}={value}")
    if from_file:
        findings.append(note(f"from drydock.env: {', '.join(from_file)}"))
    return findings or [ok("no setting comes from the environment or drydock.env")]


def decide_model(model: Model, engine: str) -> list[Finding]:
    """What MODEL= and ENGINE= come down to."""
    if model.problem is not None:
        return [of_error(model.problem)]
    if engine == "external":
        return [ok("ENGINE=external: no inference server is started")]
    size = f", {decimal(model.size)}" if model.size else ""
    where = "here" if model.here else "to be downloaded"
    return [ok(f"MODEL={model.name} ENGINE={engine}: weights {where}{size}")]


def _origins(context: Context) -> list[Finding]:
    if context.problem is not None:
        return [of_error(context.problem), note("all other topics were looked at with the default settings")]
    if os.environ.get("DRYDOCK_IN_CONTAINER"):
        return []  # there the stack itself set them
    return decide_origins(context.settings)


def _plan(context: Context) -> list[Finding]:
    if not context.runs_stacks or context.problem is not None:
        return []
    try:
        plan = make_plan(context.settings)
    except DrydockError as error:
        return [of_error(error)]
    owner = f"user {plan.uid}:{plan.gid}"
    workspace = context.settings.workspace
    reason = unwritable(workspace, plan.uid, plan.gid)
    if reason and context.settings.origin("workspace") != "default":
        mend = f"sudo chown {plan.uid}:{plan.gid} {shlex.quote(str(workspace))}"
        return [warn(f"workspace: {reason}", "What a training writes there fails with `Permission denied`.", mend)]
    return [ok(f"workspace {workspace}; containers run as {owner}")]


def _model(context: Context) -> list[Finding]:
    return decide_model(context.model(), context.settings.engine) if context.runs_stacks else []


CHECKS = (Check("settings.origins", _origins), Check("settings.plan", _plan), Check("settings.model", _model))
