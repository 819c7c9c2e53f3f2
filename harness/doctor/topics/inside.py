"""Inside the Ray nodes' containers: versions that have to agree, and mounts that still lead where they did."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import __version__
from harness.doctor.context import Context
from harness.doctor.findings import Finding, bad, ok, warn

RAY_SERVICES = ("dev", "ray-head", "ray-worker")
PACKAGES = {"ray": "Ray", "debugpy": "debugpy", "drydock": "Drydock"}
# A busy machine takes a while to start a Python in every container.
EXEC_SECONDS = 3
# Prints versions, and device and inode of each path that it is given. Imports nothing big: Ray alone takes a second.
PROBE = """
import importlib.metadata as m, json, os, platform, sys
def version(name):
    try: return m.version(name)
    except m.PackageNotFoundError: return None
def place(path):
    try: s = os.stat(path)
    except OSError: return None
    return [s.st_dev, s.st_ino]
packages, paths = sys.argv[1].split(","), sys.argv[2:]
found = {"packages": {p: version(p) for p in packages}, "places": {p: place(p) for p in paths}}
print(json.dumps({"python": platform.python_version(), **found}))
"""


@dataclass(frozen=True)
class Mount:
    """A bind mount of a container.

    Attributes:
        source, target: the path on this machine and in the container.
        here: whether the source is there; None where that can't be seen.
        same: whether both are the same file still; None where that can't be seen.
    """

    source: str
    target: str
    here: bool | None = None
    same: bool | None = None


@dataclass(frozen=True)
class Node:
    """What is inside one container.

    Attributes:
        name: of the container.
        service: its Compose service.
        python: version of /opt/venv's Python; "" where the container could not be asked, and then ``problem`` says why.
        packages: package to version, None where it isn't installed.
    """

    name: str
    service: str
    python: str = ""
    packages: dict[str, str | None] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    problem: str = ""


def gather(project: str, *, our_files: bool) -> list[Node]:
    """Look into every running container of a project; ``our_files``: the engine's paths are this machine's."""
    from harness import docker_engine

    client = docker_engine.connect(timeout=EXEC_SECONDS)
    found = client.containers.list(filters={"label": f"{docker_engine.PROJECT_LABEL}={project}", "status": "running"})
    if not found:
        return []
    with ThreadPoolExecutor(max_workers=8) as pool:
        nodes = pool.map(lambda container: _look(container, our_files=our_files), found)
        return sorted(nodes, key=lambda node: (node.service, node.name))


def _look(container: Any, *, our_files: bool) -> Node:
    import docker.errors
    import requests

    labels = container.attrs["Config"]["Labels"]
    service = labels.get("com.docker.compose.service", "")
    binds = [(m["Source"], m["Destination"]) for m in container.attrs.get("Mounts") or [] if m.get("Type") == "bind"]
    if service not in RAY_SERVICES:
        mounts = tuple(Mount(source, target, _here(source) if our_files else None) for source, target in binds)
        return Node(container.name, service, mounts=mounts)
    command = ["/opt/venv/bin/python", "-I", "-c", PROBE, ",".join(PACKAGES), *(target for _, target in binds)]
    try:
        code, output = container.exec_run(command)
        said = json.loads(output) if code == 0 else None
    except (docker.errors.DockerException, requests.RequestException, ValueError) as error:
        return Node(container.name, service, problem=str(error)[:160])
    if said is None:
        return Node(container.name, service, problem=output.decode("utf-8", "replace").strip()[-160:])
    mounts = tuple(
        Mount(
            source, target, _here(source) if our_files else None, _same(source, said["places"].get(target), our_files)
        )
        for source, target in binds
    )
    return Node(container.name, service, said["python"], said["packages"], mounts)


def _here(source: str) -> bool | None:
    try:
        Path(source).stat()
    except FileNotFoundError:
        return False
    except OSError:
        return None
    return True


def _same(source: str, inside: list[int] | None, our_files: bool) -> bool | None:
    if not our_files or inside is None:
        return None
    try:
        state = os.stat(source)
    except OSError:
        return None
    return [state.st_dev, state.st_ino] == inside


def decide_versions(nodes: list[Node]) -> list[Finding]:
    """Python and packages have to be the same in all Ray nodes."""
    asked = [node for node in nodes if node.service in RAY_SERVICES]
    findings = [
        warn(
            f"{node.name} could not be asked for its versions: {node.problem}",
            "Whether they agree is not known.",
            f"make logs S={node.service}",
        )
        for node in asked
        if node.problem
    ]
    told = [node for node in asked if not node.problem]
    if not told:
        return findings
    items = {"Python": {node.name: node.python for node in told}}
    for package, shown in PACKAGES.items():
        items[shown] = {node.name: node.packages.get(package) or "none" for node in told}
    for shown, versions in items.items():
        if len(set(versions.values())) > 1:
            each = ", ".join(f"{version} in {name}" for name, version in versions.items())
            consequence = {
                "Python": "Ray refuses nodes with another Python, and pickled tasks can't be read.",
                "Ray": "Ray refuses nodes with another version.",
                "debugpy": "Breakpoints may not bind in some of them.",
            }.get(shown, "The containers were not made from the same clone.")
            findings.append(
                bad(f"{shown} differs: {each}.", consequence, "make down up   # makes all of them from one image")
            )
    if items["Ray"] and set(items["Ray"].values()) == {"none"}:
        findings.append(
            bad("There is no Ray in the Ray nodes.", "No task can run.", "make clean up   # builds the image anew")
        )
    if not any(finding.sign == "bad" for finding in findings):
        first = told[0]
        shown_versions = [
            f"{name} {first.packages[package]}" for package, name in PACKAGES.items() if first.packages.get(package)
        ]
        how_many = f"in all {len(told)} Ray nodes" if len(told) > 1 else f"in {first.name}"
        findings.append(ok(f"{', '.join([f'Python {first.python}', *shown_versions])} {how_many}"))
    drydock = told[0].packages.get("drydock")
    if drydock and drydock != __version__:
        text = f"The containers have Drydock {drydock}, this clone is {__version__}."
        findings.append(
            warn(text, "Checks and hang dumps in there are the old ones.", "make up   # builds the image anew")
        )
    return findings


def decide_mounts(nodes: list[Node]) -> list[Finding]:
    """A mount whose source was removed or replaced shows the containers what isn't there any more."""
    gone: dict[str, list[str]] = {}
    replaced: dict[str, list[str]] = {}
    total = 0
    for node in nodes:
        for mount in node.mounts:
            total += 1
            if mount.here is False:
                gone.setdefault(mount.source, []).append(node.name)
            elif mount.same is False:
                replaced.setdefault(mount.source, []).append(node.name)
    findings = [
        bad(
            f"{source} is gone, and {', '.join(names)} had it mounted.",
            "The containers still see what was removed, and can't be started again.",
            "make down up",
        )
        for source, names in gone.items()
    ]
    findings += [
        bad(
            f"{source} was replaced since {', '.join(names)} mounted it.",
            "The containers see the old one: your changes, or a new key, don't arrive.",
            "make down up",
        )
        for source, names in replaced.items()
    ]
    return findings or ([ok(f"all {total} mounts lead to what is there now")] if total else [])


def check(context: Context) -> list[Finding]:
    """Versions and mounts of the running stack."""
    nodes = gather(context.settings.project, our_files=context.engine().shares_our_files)
    return [*decide_versions(nodes), *decide_mounts(nodes)]
