"""Where weights lie: Drydock's own cache, the hub cache that all Hugging Face tools share, locks, and records.

Own cache (``DRYDOCK_CACHE``, by default ``~/.cache/drydock``)::

    models/<alias>/<version>/gguf/…             out of a package
    models/<alias>/<version>/safetensors/…      converted from it for vLLM
    models/revisions/<repository>.json          which commit was taken where none was pinned
    models/locks/…

What comes from a hub goes to the hub cache, so that other tools find it and what they have is used here.
"""

from __future__ import annotations

import datetime
import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.errors import DownloadFailed, LibraryMissing, NoSpace
from harness.models.progress import Meter, readable
from harness.places import write_whole
from harness.settings import Settings

RECORD = "drydock.json"

# What the CACHEDIR.TAG standard asks for; backup programs then leave the folder out.
_TAG = """Signature: 8a477f597d28d172789f06886806bc55
# Model weights that Drydock fetched; it fetches them again if they are removed.
"""


def models_root(settings: Settings) -> Path:
    """The folder of our own cache that holds weights; may not exist yet."""
    return settings.cache / "models"


def make_root(settings: Settings) -> Path:
    """The same, made if it wasn't there."""
    root = models_root(settings)
    root.mkdir(parents=True, exist_ok=True)
    if not (tag := root / "CACHEDIR.TAG").exists():
        tag.write_text(_TAG, encoding="utf-8")
    return root


def hub_cache(environ: Mapping[str, str] | None = None) -> Path:
    """The folder in which Hugging Face tools keep what they download, found by their own rules."""
    environment = os.environ if environ is None else environ
    explicit = environment.get("HF_HUB_CACHE") or environment.get("HUGGINGFACE_HUB_CACHE")
    if not explicit:
        base = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        explicit = str(Path(environment.get("HF_HOME") or Path(base) / "huggingface") / "hub")
    return Path(os.path.expandvars(explicit)).expanduser().absolute()


def repo_folder(repo: str) -> Path:
    """Where the hub cache keeps a repository, in whatever letter case it was fetched; may not exist yet."""
    name = f"models--{repo.replace('/', '--')}"
    cache = hub_cache()
    if not (cache / name).is_dir() and cache.is_dir():
        for item in cache.iterdir():
            if item.name.lower() == name.lower():
                return item
    return cache / name


def cached_commit(settings: Settings, repo: str, revision: str | None) -> str | None:
    """The commit that a revision stood for when it was last fetched; None if that isn't known."""
    if revision and _is_commit(revision):
        return revision.lower()
    known = read_json(_revisions_file(settings, repo)).get(revision or "main")
    if isinstance(known, str):
        return known
    ref = repo_folder(repo) / "refs" / (revision or "main")
    return ref.read_text(encoding="utf-8").strip() if ref.is_file() else None


def record_commit(settings: Settings, repo: str, revision: str | None, commit: str) -> None:
    """Keep which commit a branch, a tag or no revision stood for, so that `up` serves the same weights tomorrow."""
    if revision and _is_commit(revision):
        return
    make_root(settings)
    file = _revisions_file(settings, repo)
    write_json(file, {**read_json(file), "repo": repo, revision or "main": commit, "recorded": _now()})


def write_record(folder: Path, **fields: Any) -> None:
    """Keep beside weights of our own where they came from."""
    write_json(folder / RECORD, {**fields, "recorded": _now()})


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object from a file; empty where there is none."""
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def write_json(file: Path, value: dict[str, Any]) -> None:
    """Write a JSON object so that nobody ever reads half of it, nor finds half of it lying beside."""
    write_whole(file, json.dumps(value, indent=2) + "\n")


@contextmanager
def locked(settings: Settings, name: str, meter: Meter) -> Iterator[None]:
    """Hold the lock of one model; a second `up` waits here and then finds the weights there."""
    try:
        import filelock
    except ImportError:
        raise stack_extra_missing("filelock") from None
    folder = make_root(settings) / "locks"
    folder.mkdir(exist_ok=True)
    lock = filelock.FileLock(folder / f"{name.lower().replace('/', '--')}.lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        meter.say(f"another command is fetching {name}; waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def need_space(folder: Path, size: int, what: str) -> None:
    """Check beforehand that a download fits.

    Raises:
        NoSpace: it doesn't.
    """
    there = folder
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    # A disk that is filled to the last byte breaks other things than this download.
    if size + 256 * 1024**2 > free:
        raise NoSpace(
            f"{what} needs {readable(size)}, and the disk of {folder} has {readable(free)} free.",
            consequence="Nothing was downloaded.",
            mend="make clean   # removes images, weights and build cache of ours\n"
            "HF_HOME=/bigger/disk make up   # or DRYDOCK_CACHE= for what doesn't come from a hub",
        )


def disk_trouble(error: OSError, folder: Path) -> NoSpace | DownloadFailed | None:
    """The error for a disk that is full or may not be written; None if it is about something else."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoSpace(
            f"The disk of {folder} filled up during the download.",
            consequence="What has arrived is kept; nothing half-written will be served.",
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return DownloadFailed(
            f"{error.filename or folder} can't be written by user {os.geteuid()}: {os.strerror(error.errno)}.",
            consequence="Nothing was downloaded.",
            mend="make up DRYDOCK_CACHE=/a/folder/of/yours   # where weights out of packages lie\n"
            "HF_HOME=/a/folder/of/yours make up   # where the model hub's weights lie",
        )
    return None


def stack_extra_missing(package: str) -> LibraryMissing:
    """The error for a Python package that only the stack's verbs need."""
    return LibraryMissing(
        f"The Python package {package} isn't installed; fetching models needs it.",
        consequence="No weights can be downloaded.",
        mend="make venv   # in a clone\npip install 'drydock[stack]'",
    )


def _revisions_file(settings: Settings, repo: str) -> Path:
    return models_root(settings) / "revisions" / f"{repo.lower().replace('/', '--')}.json"


def _is_commit(revision: str) -> bool:
    return len(revision) == 40 and all(letter in "0123456789abcdef" for letter in revision.lower())


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
