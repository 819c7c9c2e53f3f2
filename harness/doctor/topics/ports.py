"""Ports that the stack publishes: free, ours, or whose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from harness.doctor.check import Check
from harness.doctor.context import Context
from harness.doctor.findings import Finding, bad, note, ok, warn
from harness.errors import DrydockError, PortTaken
from harness.settings import Settings


@dataclass(frozen=True)
class Port:
    """One port of 127.0.0.1.

    Attributes:
        setting: the setting that it comes from.
        state: nobody listens, a container of this stack publishes it, or somebody else has it.
        text: where it is taken: by whom.
        mend: where it is taken: what to do.
    """

    setting: str
    number: int
    state: Literal["free", "ours", "taken"]
    text: str = ""
    mend: str = ""


def gather(setting: str, number: int, project: str, published: dict[int, tuple[str, str]]) -> Port:
    """Find out who has a port; a container is known by what the engine says, everything else by its process."""
    from harness.stack import guard

    if number in published:
        name, owner = published[number]
        if owner == project:
            return Port(setting, number, "ours")
        taken = guard.taken_by_container(setting, number, name, owner)
        return Port(setting, number, "taken", taken.what, taken.mend)
    try:
        guard.port_free(number, setting)
    except PortTaken as error:
        return Port(setting, number, "taken", error.what, error.mend)
    return Port(setting, number, "free")


def decide(ports: list[Port], *, engine_answers: bool) -> list[Finding]:
    """Taken ports are wrong, unless they may be our own; two settings with one port are wrong as well."""
    findings = []
    if len({port.number for port in ports}) < len(ports):
        names = " and ".join(port.setting for port in ports)
        findings.append(
            bad(
                f"{names} are both {ports[0].number}.",
                "`make up` refuses that.",
                "make up PORT=8080 DASHBOARD_PORT=8265",
            )
        )
    for port in ports:
        if port.state == "taken" and not engine_answers:
            findings.append(
                warn(port.text, "Without the Docker engine it can't be seen whether it is this stack's own.")
            )
        elif port.state == "taken":
            findings.append(bad(port.text, "`make up` refuses to start.", port.mend))
        else:
            state = "free" if port.state == "free" else "ours: the stack publishes it"
            findings.append(ok(f"{port.setting}={port.number} is {state}"))
    return findings


def wanted(settings: Settings) -> dict[str, int]:
    """The ports that the running stack, else the next `up`, publishes."""
    from harness.stack.status import recall

    try:
        settings = recall(settings)[0].settings
    except DrydockError:
        pass  # what is wrong with the settings is said among the settings
    ports = {"DASHBOARD_PORT": settings.dashboard_port}
    return ports if settings.engine == "external" else {"PORT": settings.port, **ports}


def bound_by_dev(settings: Settings, client: Any) -> dict[int, tuple[str, str]]:
    """Ports that ``dev`` binds itself, in the machine's network, because other machines may join (SHARE=)."""
    from harness import docker_engine
    from harness.stack.machines import sharing
    from harness.stack.status import recall

    try:
        plan, _ = recall(settings)
        if not plan.shared or not sharing.runs(mine := docker_engine.containers(client, settings.project)):
            return {}
    except DrydockError:
        return {}
    (dev,) = [one.name for one in mine if one.service == "dev"][:1]
    return {plan.settings.dashboard_port: (dev, settings.project)}


def _ports(context: Context) -> list[Finding]:
    if not context.runs_stacks:
        return [note("No clone here, so no stack publishes ports.")]
    engine, settings = context.engine(), context.settings
    if engine.packages_missing:
        return [note("Not looked at: the Python packages for Docker aren't installed.")]
    from harness.stack.machines import worker

    if worker.is_worker(settings):
        head = worker.head_of(settings)
        return [note(f"This machine is a node of the cluster at {head}: it publishes no ports.")]
    held = engine.published | (bound_by_dev(settings, engine.client) if engine.answers else {})
    ports = [gather(setting, port, settings.project, held) for setting, port in wanted(settings).items()]
    return decide(ports, engine_answers=engine.answers)


CHECKS = (Check("ports.published", _ports),)
