"""Bring the stack up, or find that it is up, or heal what is broken; the steps in their order."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import console, docker_engine, models
from harness.docker_engine import Compose, Container
from harness.errors import BadSetting, EnvironmentUnfit, FolderClosed, ServiceFailed
from harness.models import ModelFiles
from harness.places import home
from harness.settings import Settings
from harness.stack import exposed, guard, heal, keys, limits, observe, rendering, samplers, starting, weights
from harness.stack.already import fine
from harness.stack.gpu.driver import driver_fits
from harness.stack.gpu.machine import Machine
from harness.stack.gpu.machine import look as look_at_gpus
from harness.stack.gpu.split import NO_TOOLKIT, TOOLKIT_MEND
from harness.stack.images import ensure_images
from harness.stack.images.catalogue import load_catalogue
from harness.stack.machines import sharing
from harness.stack.observe import Service
from harness.stack.plan import Plan, closed, make_plan, unwritable, with_gpus
from harness.stack.presets import environment, write_environment
from harness.stack.remembering import write_record
from harness.stack.status import remember

# What the last lines of a failing service say about the mend; the first that fits is shown.
LIKELY_MENDS: list[tuple[tuple[str, ...], str]] = [
    (("no space left",), "make clean   # or free space on the disk that Docker uses"),
    (
        ("out of memory", "cannot allocate memory", "bad_alloc", "kvcache_space"),
        "make up CONTEXT=1024   # or a smaller MODEL",
    ),
    (
        ("unrecognized arguments", "unknown argument", "invalid choice"),
        "make up ENGINE_ARGS=…   # the engine doesn't know one of these",
    ),
    (("permission denied",), "make doctor TOPIC=stack   # a mounted file can't be read by the containers' user"),
]
POLL_SECONDS = 0.5
# Ray waits 30 s for its own node, and that can't be set; on a busy machine it takes longer.
# Its dashboard's start has a limit of its own.
RAY_GAVE_UP = ("node timed out during startup", "it contains the error message from the dashboard")
RAY_STARTS = 3


@dataclass(frozen=True)
class Result:
    """How `up` ended.

    Attributes:
        changed: services that were created, started or healed; empty when nothing had to be done.
        awaited: services that were there and only had to become ready, as after an `up` that was broken off.
        services: what runs now.
        names: names the server answers to, the first for short.
    """

    plan: Plan
    changed: tuple[str, ...]
    services: list[Service]
    names: tuple[str, ...]
    seconds: float
    awaited: tuple[str, ...] = ()


def up(settings: Settings) -> Result:
    """Bring the stack to what the settings ask for.

    Raises:
        DrydockError: of many kinds; nothing half-made is left in the way of the next `up`.
    """
    started = time.monotonic()
    plan = make_plan(settings)
    client = guard.docker_fit()
    machine = look_at_gpus(client)
    plan = with_gpus(plan, machine, load_catalogue())
    settings = plan.settings
    _tell_of_gpus(plan, machine)
    if said := exposed.warning(settings.workspace, home(), _home_of_user()):
        console.warn(said)
        console.mend("make up WORKSPACE=FOLDER   # a folder with your project alone")
    _may_be_entered(plan)
    # Nobody is told of the sample's own folder, into which nothing of a user's writes.
    if settings.origin("workspace") != "default" and (said := unwritable(settings.workspace, plan.uid, plan.gid)):
        console.warn(said, f"sudo chown {plan.uid}:{plan.gid} {shlex.quote(str(settings.workspace))}")
    engine = limits.look(client)
    limits.decide(settings, engine)  # refused before anything is fetched or built
    if engine.cannot:
        console.warn(
            f"this Docker engine can't limit {' and '.join(engine.cannot)}: a runaway agent takes what there is"
        )
    with guard.only_one(settings):
        # What would stop it in the end is looked at first, before minutes of downloading and building.
        mine = docker_engine.containers(client, settings.project)
        guard.our_own(settings, mine)
        _check_ports(client, plan, mine)
        model = None if plan.external else models.resolve(settings)
        # Before the images: a hub that can't be reached is to be known in seconds, not after minutes of building.
        served = weights.fetch(plan, model) if model else None
        images = ensure_images(client, settings, on_gpu=bool(plan.gpus.inference))
        if plan.gpus.any:
            driver_fits(client, machine, [name for name in (images.inference, images.dev) if name])
        if model and served:
            served = weights.convert(client, plan, model, served, images.inference or "")
        plan = replace(plan, limits=limits.decide(settings, engine, _in_memory(plan, served)))
        values = rendering.variables(
            plan,
            dev_image=images.dev,
            inference_image=images.inference or "",
            served=served,
            keys=keys.ensure(plan),
        )
        rendering.write_devices(plan)
        compose = rendering.compose_for(plan)
        stamp = rendering.stamp(compose, values)
        before = observe.look(client, plan.expected)
        names = served.names if served else plan.asked_names
        if _applied(settings) == stamp and fine(before):
            # Told only here: elsewhere they come and go with the containers that they belong to.
            healed = ("samplers",) if samplers.ensure(client, settings.project) else ()
            write_record(plan, served, names)
            return Result(plan, healed, before, names, time.monotonic() - started)
        _prepare_folders(plan)
        changed = _apply(client, plan, compose, values, before, stamp, names)
        services = wait_ready(client, plan)
        write_record(plan, served, names)
    return Result(plan, changed, services, names, time.monotonic() - started, not_ready(before, changed))


def not_ready(before: Sequence[Service], changed: Sequence[str]) -> tuple[str, ...]:
    """Services that were not ok, beside those that were changed for it."""
    return tuple(service.name for service in before if service.condition != "ok" and service.name not in changed)


def _may_be_entered(plan: Plan) -> None:
    for folder in (plan.settings.workspace, plan.settings.framework_src):
        if folder is not None and closed(folder, plan.uid, plan.gid):
            named = shlex.quote(str(folder))
            raise FolderClosed(
                f"The containers run as user {plan.uid}, who may not enter and list {folder} "
                f"(mode {folder.stat().st_mode & 0o777:o}).",
                mend=f"chmod -R a+rX {named}   # or make it that user's: sudo chown -R {plan.uid}:{plan.gid} {named}",
            )


def _home_of_user() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:
        return None


def _in_memory(plan: Plan, served: ModelFiles | None) -> int:
    """Bytes of weights that the server keeps in this machine's memory, where that isn't a GPU's."""
    return served.size if served is not None and not plan.gpus.inference else 0


def _tell_of_gpus(plan: Plan, machine: Machine) -> None:
    if plan.gpus.any:
        chosen = f"ENGINE={plan.settings.engine}; " if plan.engine_inferred else ""
        console.note(f"{chosen}{plan.gpus.why} (ENGINE=, GPUS_INFERENCE= and GPUS_TRAIN= say otherwise)")
    elif machine.gpus and not machine.way:
        console.warn(NO_TOOLKIT)
        console.mend(TOOLKIT_MEND)


def _apply(
    client: Any,
    plan: Plan,
    compose: Compose,
    values: dict[str, str],
    before: list[Service],
    stamp: str,
    names: tuple[str, ...],
) -> tuple[str, ...]:
    """Make the containers what the variables say; returns the services that are new or healed."""
    settings = plan.settings
    guard.plugins_fit()
    healed = heal.heal(client, settings, before)
    heal.remove_unwanted(client, before)
    rendering.write_env_file(compose.env_file, values)
    rendering.write_told(plan, values)
    if plan.debug:
        write_environment(rendering.debug_file(plan), environment(plan.debug))
    ids = _ids(client, settings)
    # Written last, so that an `up` that was cut short is not taken for a finished one.
    _stamp_file(settings).unlink(missing_ok=True)
    starting.start(compose, "containers")
    _stamp_file(settings).write_text(stamp, encoding="utf-8")
    remember(plan, names)
    fresh = {service for service, found in _ids(client, settings).items() if found != ids.get(service)}
    return tuple(sorted(fresh | set(healed)))


def wait_ready(client: Any, plan: Plan) -> list[Service]:
    """Wait until every service is ok.

    Raises:
        ServiceFailed: a container ended, or one was not ready within ``WAIT`` seconds; carries its last log lines.
    """
    # Before the wait: what doesn't become ready is worth a dump. And after it: Ray may have been started twice.
    samplers.ensure(client, plan.settings.project)
    deadline = time.monotonic() + plan.settings.wait
    ready: dict[str, float] = {}
    started = time.monotonic()
    starts = 1
    with console.step("waiting until everything answers") as step:
        while True:
            services = observe.look(client, plan.expected)
            for service in services:
                if service.condition == "exited" and starts < RAY_STARTS and _started_again(client, service):
                    starts += 1
                elif hopeless(service):
                    raise _failed(client, service, f"The service `{service.name}` {_verb(service)}: {service.detail}.")
                if service.condition == "ok":
                    ready.setdefault(service.name, time.monotonic() - started)
            late = [service for service in services if service.condition != "ok"]
            if not late:
                break
            step.update(", ".join(f"{service.name}: {service.detail}" for service in late))
            if time.monotonic() > deadline:
                raise _failed(
                    client,
                    late[0],
                    f"The service `{late[0].name}` was not ready after {plan.settings.wait:.0f} s: {late[0].detail}.",
                )
            time.sleep(POLL_SECONDS)
        step.text = "ready: " + ", ".join(f"{name} {seconds:.0f} s" for name, seconds in ready.items())
    if starts > 1:
        samplers.ensure(client, plan.settings.project)
    return services


def hopeless(service: Service) -> bool:
    """Whether no waiting helps: it ended, or somebody stopped, paused or cut it off."""
    cut_off = any(not container.networks for container in service.containers)
    return service.condition in ("exited", "stopped", "paused") or (service.condition == "unhealthy" and cut_off)


def _started_again(client: Any, service: Service) -> bool:
    """Start a node again that Ray itself was too impatient with; whether there was one."""
    ended = {c: docker_engine.log_tail(client, c.id) for c in service.containers if not c.running}
    late = [container for container, log in ended.items() if any(words in log for words in RAY_GAVE_UP)]
    for container in late:
        client.containers.get(container.id).start()
        console.note(f"{service.name}: Ray gave up on its own start, as it does on a busy machine; it is started again")
    return bool(late)


def _verb(service: Service) -> str:
    verbs = {"exited": "ended", "stopped": "hangs", "paused": "is paused", "unhealthy": "can't be reached"}
    return verbs[service.condition]


def _failed(client: Any, service: Service, what: str) -> ServiceFailed:
    logs = ""
    for container in service.containers:
        state = f"[{container.name}] status {container.status}, health {container.health or 'not checked'}"
        logs += f"{state}, exit code {container.exit_code}\n{docker_engine.log_tail(client, container.id)}\n"
    mend = f"make logs S={service.name}"
    if any(container.oom_killed for container in service.containers):
        mend = LIKELY_MENDS[1][1]
    for words, command in LIKELY_MENDS:
        if any(word in logs.lower() for word in words):
            mend = command
            break
    return ServiceFailed(
        what,
        consequence="The other services were left as they are; `make up` tries again from here.",
        mend=mend,
        logs=logs,
    )


def _check_ports(client: Any, plan: Plan, mine: list[Container]) -> None:
    """Refuse ports that somebody else holds; a port that a container of ours publishes is not somebody else's."""
    asked = {"DASHBOARD_PORT": plan.settings.dashboard_port}
    if not plan.external:
        asked["PORT"] = plan.settings.port
    if len(set(asked.values())) < len(asked):
        raise BadSetting("PORT and DASHBOARD_PORT are the same.", mend="make up PORT=8080 DASHBOARD_PORT=8265")
    ours = {port for container in mine for port in container.published_ports}
    if plan.shared:
        sharing.check_ports(plan, mine)
        # Bound by `dev` itself; sharing has looked.
        ours |= {plan.settings.dashboard_port} if sharing.runs(mine) else set()
    wanted = {setting: port for setting, port in asked.items() if port not in ours}
    guard.ports_free(wanted, lambda: docker_engine.all_containers(client))


def _prepare_folders(plan: Plan) -> None:
    """Make the folder of results, writable for the containers' user."""
    runs = plan.settings.runs_dir
    try:
        runs.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0 and runs.stat().st_uid != plan.uid:
            os.chown(runs, plan.uid, plan.gid)
    except OSError as error:
        raise EnvironmentUnfit(
            f"The folder of results {runs} can't be made: {error.strerror}.", mend=f"mkdir -p {runs}"
        ) from None


def _stamp_file(settings: Settings) -> Path:
    return settings.state_dir / "applied"


def _applied(settings: Settings) -> str:
    try:
        return _stamp_file(settings).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def _ids(client: Any, settings: Settings) -> dict[str, set[tuple[str, str]]]:
    """Per service the containers that run, by id and start time."""
    found: dict[str, set[tuple[str, str]]] = {}
    for container in docker_engine.containers(client, settings.project):
        found.setdefault(container.service, set()).add((container.id, container.started_at))
    return found
