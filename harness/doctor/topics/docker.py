"""Docker: client, plugins, the engine, and what of its kind makes a difference to us."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass

from rich.filesize import decimal

from harness.doctor.check import Check
from harness.doctor.context import Context
from harness.doctor.engine import Engine
from harness.doctor.findings import Finding, bad, mended, note, of_error, ok, warn
from harness.doctor.probing import ask
from harness.doctor.topics.network_proxies import without_password
from harness.doctor.versions import numbers

PLUGINS = {"compose": "Docker Compose", "buildx": "Docker Buildx"}
# The first engine that keeps ports published on 127.0.0.1 from neighbours on the local network.
GUARDS_LOOPBACK = (28, 0)
CLIENT_SECONDS = 2.5
# Installs and starts what is missing; asks by itself.
SETUP = ("scripts/ensure-docker.sh",)


@dataclass(frozen=True)
class Client:
    """The programs on this machine.

    Attributes:
        version: of the client, None where there is none.
        plugins: plugin to its version, None where it is missing.
    """

    version: str | None
    plugins: dict[str, str | None]


def gather_client() -> Client:
    """Ask the client and its plugins for their versions; none of them needs the daemon for that."""
    version = version_in(ask(["docker", "--version"], CLIENT_SECONDS).out)
    if version is None:
        return Client(None, dict.fromkeys(PLUGINS))
    return Client(version, {name: version_in(ask(["docker", name, "version"], CLIENT_SECONDS).out) for name in PLUGINS})


def version_in(text: str) -> str | None:
    """The first version number in a program's answer."""
    match = re.search(r"\bv?(\d+\.\d+[\w.+~-]*)", text)
    return match[1] if match else None


def decide_client(client: Client, oldest: dict[str, tuple[int, int]], *, needed: bool) -> list[Finding]:
    """Whether client and plugins are here and new enough; ``needed``: a stack can be started from here at all."""
    mend = "make docker   # installs what is missing, after asking"
    if client.version is None:
        if not needed:
            return [note("No Docker client; there is no clone here either, so no stack is run from here.")]
        return [mended(bad("There is no `docker` on this machine.", "The stack can't be started.", mend), *SETUP)]
    findings = [ok(f"Docker client {client.version}")]
    for name, version in client.plugins.items():
        if version is None:
            text = f"`docker {name}` is missing on this machine."
            findings.append(mended(bad(text, "The stack can't be started.", mend), *SETUP))
        elif name in oldest and numbers(version) < oldest[name]:
            wanted = ".".join(map(str, oldest[name]))
            consequence = "Options that our files use are refused, or silently ignored."
            findings.append(
                bad(f"{PLUGINS[name]} {version} is too old; {wanted} is the oldest that works.", consequence, mend)
            )
        else:
            findings.append(ok(f"{PLUGINS[name]} {version}"))
    return findings


def decide_engine(engine: Engine, oldest: tuple[int, int] | None, *, needed: bool) -> list[Finding]:
    """The engine: whether it answers, its version, its kind."""
    if engine.problem is not None:
        found = of_error(engine.problem, "bad" if needed else "note")
        return [mended(found, *SETUP) if needed and "make docker" in found.mend else found]
    text = f"{engine.product} {engine.version} at {engine.address}"
    if oldest and engine.product != "Podman" and numbers(engine.version) < oldest:
        wanted = ".".join(map(str, oldest))
        return [bad(f"{text} is too old; {wanted} is the oldest that works.", "`make up` refuses it.", "make docker")]
    findings = [ok(f"{text}, storage driver {engine.driver}"), *_decide_kind(engine), *_decide_driver(engine)]
    if engine.proxies:
        shown = ", ".join(f"{name} {without_password(value)}" for name, value in sorted(engine.proxies.items()))
        findings.append(note(f"It pulls images through a proxy of its own: {shown}"))
    return findings


def _decide_kind(engine: Engine) -> list[Finding]:
    findings = []
    if engine.elsewhere:
        undo = "unset DOCKER_HOST" if os.environ.get("DOCKER_HOST") else "docker context use default"
        findings.append(
            bad(
                f"This engine runs on another machine ({engine.name}).",
                "It can't mount this clone's workspace and keys, and the ports would be published there.",
                f"{undo}   # for the engine of this machine",
            )
        )
    if engine.product == "Podman":
        findings.append(
            warn(
                "Podman answers here instead of Docker.",
                "Drydock has not been tried with it; builds with secrets and Compose's health checks may differ.",
            )
        )
    elif engine.product == "Docker Desktop":
        findings.append(
            note(f"Containers run in Docker Desktop's virtual machine, which has {decimal(engine.memory)} of memory.")
        )
    if engine.rootless:
        findings.append(
            warn(
                "The engine is rootless: a container's user is another one on this machine.",
                "The containers' user may be unable to read the key files (mode 0600) and to write to the workspace.",
                "docker context use default   # the engine that root runs, if there is one",
            )
        )
    if engine.root_dir.startswith("/var/snap/"):
        findings.append(
            warn(
                "Docker was installed as a snap.",
                "It sees folders below /home only; mounts of others are empty.",
                "sudo snap remove docker && make docker",
            )
        )
    if numbers(engine.version) < GUARDS_LOOPBACK and engine.product == "Docker Engine":
        findings.append(
            note(
                "Engines before 28 let neighbours on the local network reach ports that are published on 127.0.0.1.",
                "Drydock's ports ask for a key, so it is safe; ports of other containers of yours may not be.",
            )
        )
    return findings


def _decide_driver(engine: Engine) -> list[Finding]:
    if engine.driver == "vfs":
        return [
            warn(
                "The storage driver vfs copies every layer as a whole.",
                "Builds are slow, and images take several times their size.",
                """in /etc/docker/daemon.json: "storage-driver": "overlay2"   # restart Docker; images are made anew""",
            )
        ]
    if engine.driver in ("aufs", "devicemapper"):
        return [
            warn(
                f"The storage driver {engine.driver} is gone from current engines.",
                "Images are lost when Docker is upgraded.",
            )
        ]
    return []


def _client(context: Context) -> list[Finding]:
    return decide_client(gather_client(), _oldest()[1], needed=context.runs_stacks)


def _engine(context: Context) -> list[Finding]:
    engine = context.engine()
    if not engine.answers and not context.runs_stacks:
        return []  # nor is it needed here
    if not engine.answers and not engine.packages_missing and shutil.which("docker") is None:
        return []  # nobody wonders whether an engine answers that isn't installed
    return decide_engine(engine, _oldest()[0], needed=context.runs_stacks)


def _oldest() -> tuple[tuple[int, int] | None, dict[str, tuple[int, int]]]:
    """The oldest engine and plugins that `up` accepts; nothing where the packages that `up` needs aren't installed."""
    try:
        from harness.stack.guard import OLDEST, OLDEST_ENGINE
    except ImportError:
        return None, {}
    return OLDEST_ENGINE, OLDEST


CHECKS = (Check("docker.client", _client), Check("docker.engine", _engine))
