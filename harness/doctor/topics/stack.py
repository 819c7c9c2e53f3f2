"""The stack that runs: its services, its keys, its samplers, and whether its containers are of one make."""

from __future__ import annotations

import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.doctor.check import Check
from harness.doctor.context import Context
from harness.doctor.findings import Finding, bad, mended, note, of_error, ok, warn
from harness.doctor.topics import inside
from harness.errors import DrydockError
from harness.settings import Settings

if TYPE_CHECKING:
    from harness.docker_engine import Container
    from harness.stack.machines.worker import State
    from harness.stack.observe import Answer, Service
    from harness.stack.plan import Plan

# A server that works says so in a moment; one that is wedged would take all the time there is.
SERVICE_SECONDS = 2.5
# What the last `up` was given is given again (harness/doctor/fixing.py).
UP = ("harness", "up")
KEY_FILES = ("api_key", "ray_token", "hf_token")


@dataclass(frozen=True)
class KeyFile:
    """A key's file.

    Attributes:
        state: it is here, it isn't, or this user may not look.
        mode: permission bits.
    """

    path: Path
    state: str  # here, missing, hidden
    mode: int = 0
    uid: int = 0


@dataclass(frozen=True)
class Stale:
    """A container and the image it was made from, against the one that `up` would take."""

    service: str
    name: str
    image: str
    image_id: str


# --- condition


def gather_services(context: Context) -> list[Service]:
    """Ask the engine for the containers and the services for their condition, side by side."""
    from harness import docker_engine
    from harness.stack import observe

    plan, client = _plan(context.settings), context.engine().client
    answers: dict[str, Callable[[], Answer]] = {plan.expected.head: lambda: observe.ask_ray(plan.expected)}
    if "inference" in plan.services:
        answers["inference"] = lambda: observe.ask_server(plan.expected)
    found = docker_engine.containers(client, plan.settings.project)
    if not found:
        return []
    said = _side_by_side(answers)
    names = sorted(set(plan.services) | {container.service for container in found})
    return [
        observe.judge(name, plan.services.get(name, 0), tuple(c for c in found if c.service == name), said.get(name))
        for name in names
    ]


def _side_by_side(questions: dict[str, Callable[[], Answer]]) -> dict[str, Answer]:
    """Ask all at once; what takes too long counts as no answer, and its thread is left alone."""
    from harness.stack.observe import Answer as Said

    said: dict[str, Answer] = {}

    def put(name: str, question: Callable[[], Answer]) -> None:
        said[name] = question()

    threads = [threading.Thread(target=put, args=item, daemon=True) for item in questions.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SERVICE_SECONDS)
    late = Said(False, f"no answer within {SERVICE_SECONDS:.1f} s")
    return {name: said.get(name, late) for name in questions}


def decide_services(services: list[Service], project: str) -> list[Finding]:
    """Each service that isn't as it should be is wrong, except one that is still starting."""
    if not services:
        return [note(f"The stack `{project}` isn't up.", mend="make up")]
    return [_decide_service(service) for service in services]


def decide_node(state: State) -> Finding:
    """This machine as a node of another's cluster."""
    text = f"node of {state.head} {state.condition}: {state.detail}"
    if state.fine:
        return ok(text)
    return bad(
        text,
        "Tasks on this machine fail or wait; those on others don't.",
        "make logs S=node   # it joins again by itself, unless its container has ended: make worker …",
    )


def _decide_service(service: Service) -> Finding:
    text = f"{service.name} {service.condition}: {service.detail}"
    if service.condition == "ok" and service.expected == len(service.containers):
        return ok(text)
    if service.condition == "ok":
        return warn(f"{service.name} runs, but was not asked for.", "It takes memory.", "make up   # removes it")
    if service.condition == "silent":
        again = f"make status   # again in a moment\nmake logs S={service.name}"
        return warn(text, "A busy machine, or it begins to hang: then it is called unhealthy soon.", again)
    if service.condition == "starting":
        return warn(text, "It isn't ready yet, or it is stuck.", f"make logs S={service.name}")
    return mended(
        bad(
            text,
            "Agents and training runs that need it fail or wait.",
            f"make up   # heals it\nmake logs S={service.name}",
        ),
        *UP,
    )


# --- images


def decide_images(containers: list[Container], wanted: dict[str, str] | None) -> list[Finding]:
    """Whether all Ray nodes are of one image, and every container of the image that `up` would take now.

    Args:
        containers: those of the stack.
        wanted: service to the reference of the image that `up` would take; None: it would build one that isn't here.
    """
    if not containers:
        return []
    findings = []
    nodes = {c.image_id: c for c in containers if c.service in inside.RAY_SERVICES}
    if len(nodes) > 1:
        each = ", ".join(f"{c.name} has {c.image}" for c in nodes.values())
        consequence = "Python, Ray or your packages may differ between driver and workers: tasks fail to unpickle."
        findings.append(bad(f"The Ray nodes are of different images: {each}.", consequence, "make down up"))
    if wanted is None:
        findings.append(
            warn(
                "The containers are of older images than `make up` would build now.",
                "What you changed since (clone, requirements, framework) is not in them.",
                "make up   # builds and recreates what changed",
            )
        )
    for container in containers if wanted else []:
        image = (wanted or {}).get(container.service)
        if image not in (None, container.image):
            findings.append(
                warn(
                    f"{container.name} is of {container.image}; `make up` would take {image} now.",
                    "What you changed since (clone, requirements, framework) is not in it.",
                    "make up   # recreates it",
                )
            )
    return findings or [ok("all containers are of the images that `make up` would take")]


# --- samplers


def decide_samplers(running: int, lacking: list[str]) -> list[Finding]:
    """Whether `hang-dump` in `dev` can see into every container.

    Args:
        running: containers of the stack.
        lacking: names of those without a sampler.
    """
    if not running:
        return []
    return [
        mended(
            warn(
                f"{name} has no sampler beside it.",
                "hang-dump inside dev leaves it out; on this machine it doesn't.",
                "make up   # starts what is missing",
            ),
            *UP,
        )
        for name in lacking
    ] or [ok("every container has its sampler, for hang-dump inside dev")]


# --- keys


def gather_keys(folder: Path) -> list[KeyFile]:
    """Look at the key files, never into them."""
    found = []
    for name in ("", *KEY_FILES):
        path = folder / name if name else folder
        try:
            state = path.stat()
            found.append(KeyFile(path, "here", stat.S_IMODE(state.st_mode), state.st_uid))
        except PermissionError:
            found.append(KeyFile(path, "hidden"))
        except OSError:
            found.append(KeyFile(path, "missing"))
    return found


def decide_keys(keys: list[KeyFile], uid: int, *, up: bool) -> list[Finding]:
    """Whether nobody but the containers' user can read the keys, and that user can.

    Args:
        keys: the folder first, then its files.
        uid: the containers' user.
        up: the stack runs, so its keys have to be there.
    """
    folder, files = keys[0], keys[1:]
    if folder.state == "missing":
        if up:
            text = f"The keys' folder {folder.path} is gone."
            return [mended(bad(text, "No request can name its key.", "make up   # makes new keys"), *UP)]
        return [note("There are no keys yet; the first `make up` makes them.")]
    if any(key.state == "hidden" for key in keys):
        return [note(f"{folder.path} belongs to another user; whether its keys are safe can't be seen.")]
    findings = []
    if folder.mode & 0o022:
        consequence = "Other users of this machine can put keys of their own there."
        text = f"{folder.path} can be written by others (mode {folder.mode:04o})."
        findings.append(
            mended(bad(text, consequence, f"chmod 700 {folder.path}"), "chmod", "700", "--", str(folder.path))
        )
    for key in files:
        if key.state == "missing":
            if up:
                missing = "The containers that need it don't start again."
                findings.append(mended(bad(f"{key.path} is missing.", missing, "make up   # makes it"), *UP))
            continue
        if key.mode & 0o077:
            consequence = "Every user of this machine can use the server, or run code on the Ray cluster."
            text = f"{key.path} can be read by others (mode {key.mode:04o})."
            findings.append(
                mended(bad(text, consequence, f"chmod 600 {key.path}"), "chmod", "600", "--", str(key.path))
            )
        if key.uid != uid:
            consequence = f"The containers run as user {uid} and can't read it."
            findings.append(bad(f"{key.path} belongs to user {key.uid}.", consequence, "make up   # writes it anew"))
    return findings or [ok(f"keys in {folder.path}: mode 0600, owned by the containers' user {uid}")]


# --- the checks


def _plan(settings: Settings) -> Plan:
    from harness.stack.status import recall

    return recall(settings)[0]


def _reachable(context: Context) -> bool:
    return context.runs_stacks and context.engine().answers


def _services(context: Context) -> list[Finding]:
    if not context.runs_stacks:
        return [note("No clone here, so no stack is run from here.")]
    if not context.engine().answers:
        return [note("Not looked at: the Docker engine can't be asked.")]
    from harness.stack.machines import worker

    if worker.is_worker(context.settings):
        return [decide_node(worker.state(context.engine().client, context.settings))]
    return decide_services(gather_services(context), context.settings.project)


def _images(context: Context) -> list[Finding]:
    if not _reachable(context):
        return []
    from harness import docker_engine

    client, plan = context.engine().client, _plan(context.settings)
    containers = docker_engine.containers(client, plan.settings.project)
    return decide_images(containers, _wanted(client, plan.settings) if containers else {})


def _wanted(client: Any, settings: Settings) -> dict[str, str] | None:
    """Service to the image that `up` would take now; None where it would build one first."""
    from harness.stack.images import find_images

    found = find_images(client, settings)
    if found is None:
        return None
    return {**dict.fromkeys(inside.RAY_SERVICES, found.dev), "inference": found.inference or ""}


def _samplers(context: Context) -> list[Finding]:
    if not _reachable(context):
        return []
    from harness import docker_engine
    from harness.stack import samplers

    client, project = context.engine().client, context.settings.project
    containers = docker_engine.containers(client, project)
    return decide_samplers(len(containers), samplers.lacking(client, project, containers) if containers else [])


def _keys(context: Context) -> list[Finding]:
    if not context.runs_stacks:
        return []
    try:
        plan = _plan(context.settings)
    except ImportError:
        return []  # what is missing is said under Docker
    except DrydockError as error:
        return [of_error(error, "note")]
    up = any(project == plan.settings.project for _, project in context.engine().published.values())
    return decide_keys(gather_keys(plan.keys), plan.uid, up=up)


CHECKS = (
    Check("stack.services", _services, limit=3.8),
    Check("stack.images", _images),
    Check("stack.inside", lambda context: inside.check(context) if _reachable(context) else [], limit=3.8),
    Check("stack.samplers", _samplers),
    Check("stack.keys", _keys),
)
