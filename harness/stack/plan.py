"""What the settings ask for, decided without touching anything: which services, for whom, reached how."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from harness.errors import BadSetting
from harness.settings import Settings
from harness.stack.expected import Expected
from harness.stack.gpu.machine import Gpu, Machine, Way
from harness.stack.gpu.split import Split, engine_for, split
from harness.stack.limits import Limits
from harness.stack.presets import Preset, chosen
from harness.stack.ray_ports import Ports

if TYPE_CHECKING:
    # Not at run time: images need Docker's SDK, which isn't where the harness is only a wheel.
    from harness.stack.images.catalogue import Catalogue

LOOPBACK = {"127.0.0.1", "localhost", "::1", "0.0.0.0"}


@dataclass(frozen=True)
class Server:
    """Where the language model answers.

    Attributes:
        host_url: base URL with ``/v1`` as seen from this machine.
        container_url: the same as seen from ``dev`` and the Ray nodes.
        relay_port: port on this machine's loopback that a relay carries into the containers, or None.
        relay_target: what the relay connects to on this machine.
    """

    host_url: str
    container_url: str
    relay_port: int | None = None
    relay_target: str = ""

    @property
    def anthropic_host_url(self) -> str:
        return self.host_url.removesuffix("/v1")

    @property
    def anthropic_container_url(self) -> str:
        return self.container_url.removesuffix("/v1")


@dataclass(frozen=True)
class Plan:
    """What is to run.

    Attributes:
        services: Compose service to the number of its containers.
        ray_nodes: nodes that Ray's head should count, itself and ``dev`` among them.
        uid, gid: who the containers run as.
        framework_target: path of the user's framework checkout in the Ray nodes, or None.
        debug: the presets of ``DEBUG``.
        gpus: who gets which GPUs; :func:`with_gpus` says so, once the machine was looked at.
        cards: those that serve.
        gpu_way: how Docker hands GPUs on.
        engine_inferred: nobody asked for this engine; it follows from machine and framework.
        limits: of ``dev`` and each Ray node; none before the engine was asked what its machine has.
    """

    settings: Settings
    server: Server
    services: dict[str, int]
    ray_nodes: int
    uid: int
    gid: int
    framework_target: str | None
    debug: tuple[Preset, ...] = ()
    gpus: Split = field(default_factory=Split)
    cards: tuple[Gpu, ...] = ()
    gpu_way: Way = ""
    engine_inferred: bool = False
    limits: Limits = field(default_factory=Limits)

    @property
    def external(self) -> bool:
        return self.settings.engine == "external"

    @property
    def shared(self) -> bool:
        """Whether other machines may join: then ``dev`` is Ray's head, in this machine's own network."""
        return bool(self.settings.share)

    @property
    def ports(self) -> Ports:
        """Where a shared cluster listens."""
        return Ports(self.settings.ray_port)

    @property
    def asked_names(self) -> tuple[str, ...]:
        """Names of an external server's model as far as the user gave one; none lets the server's own list decide."""
        settings = self.settings
        return () if settings.origin("model") == "default" else (settings.model,)

    @property
    def keys(self) -> Path:
        """The folder of the key files."""
        return self.settings.state_dir / "secrets"

    @property
    def expected(self) -> Expected:
        """What there should be once this plan is carried out."""
        return Expected(
            project=self.settings.project,
            services=self.services,
            ray_nodes=self.ray_nodes,
            port=self.settings.port,
            dashboard_port=self.settings.dashboard_port,
            keys=str(self.keys),
            head="dev" if self.shared else "ray-head",
        )


def make_plan(settings: Settings, *, to_start: bool = True) -> Plan:
    """Decide what is to run.

    Args:
        to_start: False for a stack that is only looked at: its folders may be gone since.

    Raises:
        BadSetting: the workspace or the checkout is no folder, ENGINE=external lacks its address, or DEBUG names no
            preset.
    """
    workspace = _folder(settings.workspace, "WORKSPACE") if to_start else settings.workspace
    framework_target = None
    if settings.framework_src is not None:
        source = _folder(settings.framework_src, "FRAMEWORK_SRC") if to_start else settings.framework_src
        framework_target = f"/framework/{source.name}"
    server = _server(settings)
    services = {"ray-head": 1, "dev": 1}
    if settings.engine != "external":
        services["inference"] = 1
    if server.relay_port is not None:
        services["host-relay"] = 1
    if settings.workers:
        services["ray-worker"] = settings.workers
    if settings.share:
        _may_be_shared(settings, server)
        services.pop("ray-head")
    uid, gid = container_user(workspace)
    debug = chosen(settings.debug)
    return Plan(
        settings, server, services, 1 if settings.share else 2 + settings.workers, uid, gid, framework_target, debug
    )


def with_gpus(plan: Plan, machine: Machine, catalogue: Catalogue) -> Plan:
    """The plan on a machine of which it is known what GPUs it has: the engine, and who gets which cards.

    Raises:
        GpuUnfit: GPUs are asked for that can't be had.
    """
    engine = engine_for(plan.settings, machine, catalogue)
    gpus = split(plan.settings, machine, engine)
    return replace(
        plan,
        # Keeps the origins of all values.
        settings=plan.settings.but(engine=engine) if engine != plan.settings.engine else plan.settings,
        gpus=gpus,
        cards=tuple(gpu for gpu in machine.gpus if gpu.index in gpus.inference),
        gpu_way=machine.way if gpus.any else "",
        engine_inferred=engine != plan.settings.engine,
    )


def unwritable(workspace: Path, uid: int, gid: int) -> str:
    """Why programs in the containers can't write into the workspace; "" where they can, or it isn't known."""
    try:
        found = workspace.stat()
    except OSError:
        return ""
    if uid == 0 or found.st_uid == uid or found.st_mode & 0o002 or (found.st_gid == gid and found.st_mode & 0o020):
        return ""
    return f"the containers run as user {uid}, who may not write into {workspace} (mode {found.st_mode & 0o777:o})"


def closed(folder: Path, uid: int, gid: int) -> bool:
    """Whether programs in the containers could not even enter this folder, as far as its mode tells.

    Ray's head would end with a message about its dashboard's metrics then: every process starts in the workspace.
    """
    try:
        found = folder.stat()
        # A list of rights beside the mode may let them in.
        if uid == 0 or "system.posix_acl_access" in os.listxattr(folder):
            return False
    except OSError:
        return False
    shift = 6 if found.st_uid == uid else 3 if found.st_gid == gid else 0
    return (found.st_mode >> shift) & 0o5 != 0o5


def container_user(workspace: Path) -> tuple[int, int]:
    """Who the containers run as: the workspace's owner, 1000 where that is root.

    Someone who is neither root nor the owner gets their own id: only so can the containers read the key files.
    """
    me = os.geteuid()
    try:
        owner = workspace.stat()
    except FileNotFoundError:
        return me, os.getegid()  # nothing is started for it
    if me not in (0, owner.st_uid):
        return me, os.getegid()
    return (owner.st_uid, owner.st_gid) if owner.st_uid != 0 else (1000, 1000)


def _server(settings: Settings) -> Server:
    if settings.engine != "external":
        inside = f"http://{settings.share}:{settings.port}/v1" if settings.share else "http://inference:8080/v1"
        return Server(f"http://127.0.0.1:{settings.port}/v1", inside)
    if not settings.openai_base_url:
        raise BadSetting(
            "ENGINE=external needs OPENAI_BASE_URL.",
            mend="make up ENGINE=external OPENAI_BASE_URL=http://127.0.0.1:30000/v1   # OPENAI_API_KEY= if need be",
        )
    url = settings.openai_base_url.rstrip("/")
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
        raise BadSetting(f"OPENAI_BASE_URL={url} is no http(s) address.", mend="give it as http://HOST:PORT/v1")
    if parts.hostname not in LOOPBACK:
        return Server(url, url)
    port = port or (443 if parts.scheme == "https" else 80)
    # Containers mostly have no IPv6, not even on their loopback, where the relay's other end listens.
    inside = url.replace("[::1]", "localhost", 1)
    host = {"::1": "[::1]", "localhost": "localhost"}.get(parts.hostname, "127.0.0.1")
    return Server(url, inside, relay_port=port, relay_target=f"{host}:{port}")


def _may_be_shared(settings: Settings, server: Server) -> None:
    """Refuse what can't be had together with other machines.

    Raises:
        BadSetting: and why.
    """
    try:
        address = ipaddress.ip_address(settings.share)
    except ValueError:
        address = None
    if address is None or address.version != 4 or address.is_loopback or address.is_unspecified:
        raise BadSetting(
            f"SHARE={settings.share} is no IPv4 address at which other machines find this one.",
            mend="ip -brief address   # lists them\nmake up SHARE=192.168.1.10",
        )
    if settings.workers:
        raise BadSetting(
            "SHARE and WORKERS exclude each other: on a shared cluster each machine is one node.",
            mend="make up SHARE=…   # and `make worker` on the other machines",
        )
    if settings.ray_auth == "off":
        raise BadSetting(
            "SHARE with RAY_AUTH=off would let everybody on that network run code here.", mend="make up SHARE=…"
        )
    if server.relay_port is not None:
        raise BadSetting(
            f"OPENAI_BASE_URL={server.host_url} is this machine's own loopback, which other machines can't reach.",
            mend="make up ENGINE=external OPENAI_BASE_URL=http://ADDRESS:PORT/v1 SHARE=…",
        )


def _folder(path: Path, name: str) -> Path:
    if not path.exists():
        raise BadSetting(f"{name}={path} doesn't exist.", mend=f"make up {name}=FOLDER")
    if not path.is_dir():
        raise BadSetting(f"{name}={path} is a file, not a folder.", mend=f"make up {name}={path.parent}")
    return path
