"""``make save``: images, weights, wheels and the clone of the stack that the settings ask for, in one folder."""

from __future__ import annotations

import datetime
import platform
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import __version__, console, models
from harness.docker_engine import clean_environment
from harness.errors import BadSetting, EnvironmentUnfit, NoSpace, ServiceFailed
from harness.models import ModelFiles, carrying
from harness.places import home
from harness.settings import Settings
from harness.stack import guard, saved, weights
from harness.stack.gpu.machine import look as look_at_gpus
from harness.stack.images import BuiltImage, all_images, ensure_images
from harness.stack.images.catalogue import load_catalogue
from harness.stack.plan import make_plan, with_gpus

# Settings that decide what the stack consists of, and so have to be the same where it is loaded.
DECIDING = ("model", "engine", "framework", "requirements", "workers", "namespace")
HOST_LOCK = Path("docker/locks/host.txt")


@dataclass(frozen=True)
class Saved:
    """What was written.

    Attributes:
        size: bytes.
        left_out: sentences about what the user has to carry by other means.
    """

    folder: Path
    size: int
    images: int
    left_out: list[str]


def save(settings: Settings, out: Path) -> Saved:
    """Fetch and build what isn't here, then write it all to a new folder.

    Raises:
        BadSetting: the folder exists.
        NoSpace: it doesn't fit on its disk.
        DrydockError: what `up` may raise as well.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadSetting(f"OUT={out} exists and isn't empty.", mend=f"make save OUT={out}-2   # or remove it first")
    client = guard.docker_fit()
    catalogue = load_catalogue()
    plan = with_gpus(make_plan(settings), look_at_gpus(client), catalogue)
    with guard.only_one(settings):
        model = None if plan.external else models.resolve(plan.settings)
        served = weights.fetch(plan, model) if model else None
        built = ensure_images(client, plan.settings, on_gpu=bool(plan.gpus.inference))
        if model and served:
            served = weights.convert(client, plan, model, served, built.inference or "")
        images = all_images(client, plan.settings, catalogue, on_gpu=bool(plan.gpus.inference))
        _room(client, out, images, served)
        work = out.with_name(f"{out.name}.unfinished")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        try:
            left_out = _write(client, plan.settings, work, images, served)
            if out.is_dir():
                out.rmdir()
            work.rename(out)
        except OSError as error:
            raise NoSpace(f"{out} can't be written: {error.strerror}.", mend="make save OUT=FOLDER") from None
        finally:
            shutil.rmtree(work, ignore_errors=True)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    return Saved(out, size, len(images), left_out)


def _write(
    client: Any, settings: Settings, folder: Path, images: dict[str, BuiltImage], served: ModelFiles | None
) -> list[str]:
    sums, left_out = {}, []
    with console.step(f"{len(images)} images") as step:
        sums[saved.IMAGES] = _write_images(client, folder / saved.IMAGES, images, step.update)
    carried = carrying.carried(served, settings) if served else []
    if served and not carried:
        left_out.append(f"the weights in {served.host_path}: yours, so copy them, and name them by MODEL= there")
    with console.step("weights", quiet_below=0.5):
        sums[saved.WEIGHTS] = _write_tar(folder / saved.WEIGHTS, carried, "w")
    with console.step("packages of .venv"):
        sums |= _write_wheels(folder / saved.WHEELS)
    sums[saved.SOURCE] = _write_tar(folder / saved.SOURCE, _clone(), "w:gz")
    names = settings_names(settings)
    manifest = saved.Manifest(
        format=saved.FORMAT,
        made=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        version=__version__,
        settings=names,
        images={name: image.id for name, image in images.items()},
        commit=served.revision if served else None,
        architecture=str(client.version().get("Arch")),
        python="{}.{}".format(*sys.version_info),
    )
    command = "".join(f" {name}={shlex.quote(value)}" for name, value in names.items())
    for name, text in {
        saved.MANIFEST: manifest.model_dump_json(indent=1),
        saved.README: _README.format(command=command, python=manifest.python, machine=platform.machine()),
    }.items():
        with (folder / name).open("wb") as file:
            hashed = saved.Hashed(file)
            hashed.write(text.encode())
        sums[name] = hashed.sha256
    saved.write_sums(folder, sums)
    return left_out


_README = """\
A Drydock stack for a machine without a network. It needs Docker with Compose and Buildx, git, make and Python {python}
on {machine}. Copy this whole folder there, then:

    mkdir drydock && tar -xzf THIS_FOLDER/drydock.tar.gz -C drydock && cd drydock
    make load FROM=THIS_FOLDER
    make up check{command}
"""


def settings_names(settings: Settings) -> dict[str, str]:
    """Those of the deciding settings that were set, by their names in the environment."""
    there = {name: getattr(settings, name) for name in DECIDING if settings.origin(name) != "default"}
    return {name.upper(): str(value) for name, value in there.items()}


def _room(client: Any, out: Path, images: dict[str, BuiltImage], served: ModelFiles | None) -> None:
    # Layers are shared, so the largest counts, and the others by what they have beyond it at most.
    sizes = sorted(client.images.get(image.id).attrs["Size"] for image in images.values())
    needed = sum(sizes[-2:]) + (served.size if served else 0)
    there = next(folder for folder in out.absolute().parents if folder.is_dir())
    free = shutil.disk_usage(there).free
    if free < needed:
        raise NoSpace(
            f"{there} has {free / 1e9:.1f} GB free, and the stack takes up to {needed / 1e9:.1f} GB.",
            consequence="Nothing was written.",
            mend="make save OUT=FOLDER   # on another disk",
        )


def _write_images(client: Any, path: Path, images: dict[str, BuiltImage], say: Callable[[str], None]) -> str:
    """Write all images by the names they need there; one that has none here gets it for as long as that takes."""
    given = []
    try:
        for name, image in images.items():
            if name not in client.images.get(image.id).tags:
                repository, _, tag = name.rpartition(":")
                client.api.tag(image.id, repository, tag)
                given.append(name)
        # By the command line: the SDK saves one image a call, and their common layers each time.
        command = ["docker", "image", "save", *images]
        with path.open("wb") as file:
            hashed = saved.Hashed(file, lambda size: say(f"{size / 1e9:.2f} GB"))
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment()
            ) as process:
                assert process.stdout is not None
                assert process.stderr is not None
                shutil.copyfileobj(process.stdout, hashed, saved.CHUNK)
                said = process.stderr.read().decode("utf-8", "replace").strip()
        if process.returncode != 0:
            raise ServiceFailed(f"docker image save ended with exit code {process.returncode}.", logs=said)
        return hashed.sha256
    finally:
        for name in given:
            client.api.remove_image(name, noprune=True)


def _write_tar(path: Path, members: Iterable[tuple[str, Path]], mode: str) -> str:
    with path.open("wb") as file:
        hashed = saved.Hashed(file)
        with tarfile.open(fileobj=hashed, mode=mode.replace(":", "|") if ":" in mode else f"{mode}|") as tar:  # type: ignore[call-overload]
            for name, source in members:
                tar.add(source, name, recursive=False, filter=_plain)
    return hashed.sha256


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without the owner: there it belongs to whoever loads it."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _clone() -> list[tuple[str, Path]]:
    """The clone's files as they are now, without what git ignores."""
    listed = subprocess.run(
        ["git", "-C", str(home()), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=False,
    )
    names = [name for name in listed.stdout.decode().split("\0") if name]
    if listed.returncode != 0 or not names:
        raise EnvironmentUnfit(
            f"{home()} is no git clone, so what belongs to Drydock in it isn't known.",
            consequence="Nothing was saved.",
            mend="save from a clone",
        )
    return [
        (name, home() / name) for name in sorted(set(names)) if (home() / name).exists() or (home() / name).is_symlink()
    ]


def _write_wheels(folder: Path) -> dict[str, str]:
    """Download what .venv is made of, for this Python on this kind of machine."""
    folder.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--require-hashes", "--requirement", str(home() / HOST_LOCK), "--dest", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EnvironmentUnfit(
            f"The packages of .venv can't be downloaded: {(done.stderr.strip().splitlines() or ['pip failed'])[-1]}",
            consequence="Without them the other machine can't make its .venv.",
            mend="make doctor TOPIC=network",
        )
    sums = {}
    for wheel in sorted(folder.iterdir()):
        with wheel.open("rb") as file:
            sums[f"{saved.WHEELS}/{wheel.name}"] = saved.sha256(file)
    return sums
