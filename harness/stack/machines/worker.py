"""This machine as one node of a cluster whose head is another machine; and how it is taken out again."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness import console, docker_engine
from harness.docker_engine import Compose
from harness.errors import BadSetting, NotJoined, ServiceFailed
from harness.places import home, write_whole
from harness.settings import Settings
from harness.stack import guard, limits, starting
from harness.stack.gpu.driver import driver_fits
from harness.stack.gpu.machine import look as look_at_gpus
from harness.stack.gpu.split import NO_TOOLKIT, TOOLKIT_MEND, of_node
from harness.stack.images import ensure_images
from harness.stack.machines import join, meeting
from harness.stack.machines.meeting import Facts, Refused
from harness.stack.plan import container_user
from harness.stack.ray_ports import Ports, head_address, told
from harness.stack.rendering import devices_of, write_env_file

SERVICE = "node"
RECORD = "worker.json"
POLL_SECONDS = 0.3
JOINS = re.compile(r"^drydock: joins \S+ as (\S+)$", re.MULTILINE)
REFUSED = re.compile(r"^drydock: not joined \((\w+)\): (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Joined:
    """A node of the cluster.

    Attributes:
        nodes: how many the head counts, this one among them.
    """

    head: str
    address: str
    image: str
    nodes: int
    seconds: float


def join_cluster(settings: Settings) -> Joined:
    """Join, and wait until the head counts this node.

    Raises:
        BadSetting: HEAD= or TOKEN_FILE= is missing or wrong.
        GpuUnfit: GPUS_TRAIN= names cards that can't be had.
        NotJoined: why the head doesn't take this machine.
        DrydockError: of many kinds, as with `up`.
    """
    started = time.monotonic()
    host, ports, token = asked_for(settings)
    client = guard.docker_fit()
    engine = limits.look(client)
    limits.decide(settings, engine)
    machine = look_at_gpus(client)
    cards = of_node(settings, machine)
    if machine.gpus and not machine.way:
        console.warn(NO_TOOLKIT, TOOLKIT_MEND)
    with guard.only_one(settings):
        mine = docker_engine.containers(client, settings.project)
        guard.our_own(settings, mine)
        if any(one.service != SERVICE for one in mine):
            raise BadSetting(
                f"This machine has a stack of its own (`{settings.project}`), and one machine is one node.",
                consequence="Nothing was changed.",
                mend="make down   # then make worker again",
            )
        try:
            head = join.facts_of(host, ports, token)
        except Refused as refused:
            raise _refusal(refused) from None
        image = the_heads_image(client, settings, head)
        write_token(settings, token)
        if cards:
            driver_fits(client, machine, [image])
        write_devices(settings, cards, machine.way)
        compose = compose_for(settings)
        write_env_file(
            compose.env_file, variables(settings, host, ports, image) | limits.decide(settings, engine).variables()
        )
        guard.plugins_fit()
        starting.start(compose, "the node's container")
        write_whole(settings.state_dir / RECORD, json.dumps({"head": f"{host}:{ports.base}", "image": image}, indent=2))
        try:
            address, nodes = wait_joined(client, settings, host, ports, token)
        except NotJoined:
            leave(client, settings)
            raise
    return Joined(f"{host}:{ports.base}", address, image, nodes, time.monotonic() - started)


def asked_for(settings: Settings) -> tuple[str, Ports, str]:
    """The head's host and ports, and the token.

    Raises:
        BadSetting: they aren't given, or can't be used.
    """
    mend = "make worker HEAD=192.168.1.10:6379 TOKEN_FILE=ray_token   # as `make up SHARE=…` prints it on the head"
    if not settings.head or settings.token_file is None:
        raise BadSetting("`make worker` needs HEAD= and TOKEN_FILE=.", mend=mend)
    try:
        host, port = head_address(settings.head)
    except ValueError as error:
        raise BadSetting(f"HEAD: {error}.", mend=mend) from None
    try:
        token = settings.token_file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", "") or "no text"
        raise BadSetting(f"TOKEN_FILE={settings.token_file} can't be read: {reason}.", mend=mend) from None
    if not token:
        raise BadSetting(f"TOKEN_FILE={settings.token_file} is empty.", mend=mend)
    return host, Ports(port), token


def the_heads_image(client: Any, settings: Settings, head: Facts) -> str:
    """The head's own image where it is here, else one made here that has to have the same tag.

    Raises:
        NotJoined: it has another.
    """
    if head.image and docker_engine.image_id(client, head.image):
        return head.image
    # Nothing is served here.
    made = ensure_images(client, settings.but(engine="external")).dev
    if made.rpartition(":")[2] != head.image.rpartition(":")[2]:
        raise NotJoined(
            f"This node would be of another version than its head: image {made} here, {head.image} there.",
            mend=meeting.carry(head.image),
        )
    return made


def variables(settings: Settings, host: str, ports: Ports, image: str) -> dict[str, str]:
    """What docker/compose/worker.yaml is given; none of it is a secret."""
    uid, gid = container_user(settings.workspace)
    return {
        "DRYDOCK_DEV_IMAGE": image,
        "DRYDOCK_NODE_NETWORK": settings.node_network,
        "DRYDOCK_UID": str(uid),
        "DRYDOCK_GID": str(gid),
        "DRYDOCK_HEAD": f"{host}:{ports.base}",
        **told("node", ports),
        "DRYDOCK_WORKSPACE": str(settings.workspace),
        "DRYDOCK_SECRETS": str(settings.state_dir / "worker"),
    }


def compose_for(settings: Settings) -> Compose:
    """Compose with the node's files."""
    folder, devices = home() / "docker" / "compose", devices_file(settings)
    return Compose(
        settings.project,
        (folder / "worker.yaml", *([folder / "worker-gpu.yaml", devices] if devices.is_file() else [])),
        settings.state_dir / "worker" / "compose.env",
    )


def devices_file(settings: Settings) -> Path:
    """Which cards the node has; absent where it has none."""
    return settings.state_dir / "worker" / "gpu-devices.yaml"


def write_devices(settings: Settings, cards: tuple[str, ...], way: str) -> None:
    """Write that file, or remove what an earlier `worker` wrote."""
    path = devices_file(settings)
    if not cards:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(devices_of({SERVICE: cards}, way), sort_keys=False)
    write_whole(path, f"# Written by `make worker`.\n{text}")


def write_token(settings: Settings, token: str) -> None:
    """A copy that the container's user can read and nobody else; a running node keeps its own."""
    folder = settings.state_dir / "worker"
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    path = folder / "ray_token"
    if meeting.read_secret(path) == token:
        return
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(token)
    if os.geteuid() == 0:
        os.chown(path, *container_user(settings.workspace))


def wait_joined(client: Any, settings: Settings, host: str, ports: Ports, token: str) -> tuple[str, int]:
    """Wait until the head counts this node; its address and their number.

    Raises:
        NotJoined: the head refuses it, or it takes longer than ``WAIT``.
        ServiceFailed: its container ended for another reason.
    """
    deadline = time.monotonic() + settings.wait
    with console.step("joining") as step:
        while True:
            found = [one for one in docker_engine.containers(client, settings.project) if one.service == SERVICE]
            log = docker_engine.log_tail(client, found[0].id, 60) if found else ""
            if not found or not found[0].running:
                raise _ended(log)
            alive = _alive(host, ports, token)
            address = (JOINS.findall(log) or [""])[-1]
            if address and address in alive:
                step.text = f"joined as {address}"
                return address, len(alive)
            refusals = REFUSED.findall(log)
            step.update(refusals[-1][1] if refusals and not address else "Ray starts")
            if time.monotonic() > deadline:
                last = refusals[-1][1] if refusals else f"its last words: {log[-500:]}"
                raise NotJoined(f"This machine was no node after {settings.wait:.0f} s: {last}")
            time.sleep(POLL_SECONDS)


def _alive(host: str, ports: Ports, token: str) -> set[str]:
    try:
        nodes = meeting.ask(host, ports.meeting, token, "/nodes", seconds=10)
    except Refused:
        return set()
    return {one["ip"] for one in nodes if one.get("state") == "ALIVE"} if isinstance(nodes, list) else set()


def _ended(log: str) -> NotJoined | ServiceFailed:
    """The reason that the node gave before it ended."""
    refusals = list(REFUSED.finditer(log))
    if refusals:
        mend = log[refusals[-1].end() :].strip().splitlines()[:3]
        return NotJoined(refusals[-1][2], mend="\n".join(mend))
    return ServiceFailed("The node's container ended.", logs=log, mend="make logs S=node")


def _refusal(refused: Refused) -> NotJoined:
    return NotJoined(refused.what, mend=refused.mend)


def is_worker(settings: Settings) -> bool:
    """Whether this project is a node of another machine's cluster."""
    return (settings.state_dir / RECORD).is_file()


def head_of(settings: Settings) -> str:
    """HOST:PORT of its head."""
    try:
        return str(json.loads((settings.state_dir / RECORD).read_text(encoding="utf-8"))["head"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def leave(client: Any, settings: Settings) -> None:
    """Take the node out, with all that `worker` has put here."""
    from harness.stack.down import down

    down(client, settings)
    shutil.rmtree(settings.state_dir / "worker", ignore_errors=True)
    Path(settings.state_dir / RECORD).unlink(missing_ok=True)


@dataclass(frozen=True)
class State:
    """How this machine's node is."""

    head: str
    condition: str
    detail: str

    @property
    def fine(self) -> bool:
        return self.condition == "ok"

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {"up": self.condition != "missing", "fine": self.fine, "head": self.head, "node": self.detail}


def state(client: Any, settings: Settings) -> State:
    """How this machine's node is, by its container and by what the head says."""
    head = head_of(settings)
    found = [one for one in docker_engine.containers(client, settings.project) if one.service == SERVICE]
    if not found:
        return State(head, "missing", "its container is gone")
    if not found[0].running:
        return State(head, "exited", docker_engine.log_tail(client, found[0].id, 3).strip())
    log = docker_engine.log_tail(client, found[0].id, 200)
    address = (JOINS.findall(log) or [""])[-1]
    host, port = head_address(head)
    token = meeting.read_secret(settings.state_dir / "worker" / "ray_token")
    try:
        nodes = meeting.ask(host, Ports(port).meeting, token, "/nodes", seconds=10)
    except Refused as refused:
        return State(head, "cut off", refused.what)
    alive = {one["ip"] for one in nodes if one.get("state") == "ALIVE"}
    if address in alive:
        return State(head, "ok", f"{address}, one of {len(alive)} nodes")
    return State(head, "not joined", f"the head doesn't count {address or 'this node'} among its {len(alive)} nodes")
