"""The fingerprint of a whole stack: machine, Docker, images to the last package, locks, weights. And what differs.

No secret is in it: settings are shown as `make settings` shows them.
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import docker.errors
import psutil

from harness import __version__, docker_engine, models
from harness.docker_engine import plugin_version
from harness.errors import BadSetting, DrydockError
from harness.models.sums import check_sums, known_sums
from harness.places import home
from harness.settings import Settings
from harness.stack.gpu.machine import look as look_at_gpus
from harness.stack.images import fingerprint
from harness.stack.status import asked_before, recall

# What differs between any two machines and says nothing.
_OF_NO_CONCERN = ("drydock.commit_date", "machine.hostname")


def gather(client: Any, settings: Settings, *, read_weights: bool = True) -> dict[str, Any]:
    """Everything that the stack of these settings is made of, as one JSON document.

    Args:
        read_weights: take checksums of all files of the model, a second for each gigabyte; else what is known of them.
    """
    plan, names = recall(settings)
    running = {one.service: one.image for one in docker_engine.containers(client, settings.project)}
    return {
        "drydock": {"version": __version__, **_commit()},
        "machine": _machine(client),
        "gpus": asdict(look_at_gpus(client)),
        "images": {service: _image(client, settings, image) for service, image in sorted(running.items())},
        "locks": _locks(),
        "model": {"names": list(names), **_model(plan.settings, read_weights)},
        "settings": asked_before(settings),
    }


def read(path: Path) -> dict[str, Any]:
    """A fingerprint that was kept: of ``make fingerprint JSON=1``, or the ``environment.json`` of a run.

    Raises:
        BadSetting: it is none.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        what = f"DIFF={path} can't be read: {error.strerror}."
        raise BadSetting(
            what, mend="make fingerprint JSON=1 > FILE   # writes one, on your colleague's machine"
        ) from None
    except (ValueError, RecursionError):
        raise BadSetting(f"DIFF={path} is no JSON.", mend="make fingerprint JSON=1 > FILE   # writes one") from None
    if not isinstance(raw, dict) or "drydock" not in raw:
        raise BadSetting(f"DIFF={path} is no fingerprint.", mend="make fingerprint JSON=1 > FILE   # writes one")
    return raw


def differences(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What differs: where, theirs, mine; in the order in which it is worth reading. "" where one has nothing."""
    left, right = dict(_flat(theirs)), dict(_flat(mine))
    order = {name: number for number, name in enumerate(dict.fromkeys([*right, *left]))}
    keys = sorted({*left, *right} - set(_OF_NO_CONCERN), key=lambda key: order[key])
    return [(key, left.get(key, ""), right.get(key, "")) for key in keys if left.get(key, "") != right.get(key, "")]


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flat(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, (list, tuple)) and any(isinstance(item, (Mapping, list)) for item in value):
        for number, inner in enumerate(value):
            yield from _flat(inner, f"{path}.{number}")
    elif isinstance(value, (list, tuple)):
        yield path, " ".join(map(str, value))
    elif value not in (None, ""):
        yield path, str(value)


def _commit() -> dict[str, Any]:
    """The clone's commit, and whether something was changed since; nothing where it is no clone."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(home()), *arguments], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        return {"commit": git("rev-parse", "HEAD"), "changed_files": len(git("status", "--porcelain").splitlines())}
    except OSError:
        return {}


def _machine(client: Any) -> dict[str, Any]:
    info = client.info()
    return {
        "system": platform.platform(),
        "machine": platform.machine(),
        "cpus": psutil.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "docker": info.get("ServerVersion", ""),
        "storage": info.get("Driver", ""),
        "cgroup": info.get("CgroupVersion", "1"),
        "compose": plugin_version("compose"),
        "buildx": plugin_version("buildx"),
    }


def _image(client: Any, settings: Settings, image: str) -> dict[str, Any]:
    try:
        found = fingerprint(client, settings, image).as_dict()
    except docker.errors.ImageNotFound:
        return {"reference": image, "id": "not in this engine any more"}
    # A rebuilt image of the same content has another time.
    found.pop("created", None)
    return found


def _locks() -> dict[str, str]:
    """The sha256 of every lock of the clone."""
    folder = home() / "docker"
    paths = [folder / "images.lock", *sorted((folder / "locks").glob("*.txt"))]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths if path.is_file()}


def _model(settings: Settings, read: bool) -> dict[str, Any]:
    """Revision and checksums of the weights; read now, so that it is what lies on the disk and not what was meant."""
    if settings.engine == "external":
        return {"origin": f"external server {settings.openai_base_url}"}
    try:
        offline = settings.but(hf_hub_offline=True)
        files = models.here(models.resolve(offline), settings.engine, offline)
    except DrydockError as error:
        return {"origin": "not here", "why": error.what}
    if files is None:
        return {"origin": "not here"}
    about = {"origin": files.origin, "revision": files.revision, "format": files.format}
    if not read:
        return {**about, "files": {name: f"sha256:{known}" for name, known in known_sums(files).items()}}
    sums = check_sums(files)
    wrong = [one.name for one in sums if one.good is False]
    return {
        **about,
        "files": {one.name: f"sha256:{one.sha256}" for one in sums},
        **({"damaged": wrong} if wrong else {}),
    }
