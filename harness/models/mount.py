"""How weights get into the inference container: what is mounted at ``/models``, and whether it can be read there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UnusableModel, WeightsUnreadable
from harness.models.cache import models_root
from harness.settings import Settings

MODELS = "/models"


@dataclass(frozen=True)
class Mount:
    """A read-only bind mount.

    Attributes:
        host_path: the folder or file on the host.
        target: where it appears in the container: ``/models``, or a file below it.
        container_path: where the engine finds the model.
    """

    host_path: Path
    target: str
    container_path: str


def mount_file(file: Path) -> Mount:
    """Mount one file alone; the folder around it may hold anything."""
    real = file.resolve()
    # Compose and engines treat a few characters in a path specially; the name on the host doesn't matter inside.
    inside = f"{MODELS}/{file.name}"
    return Mount(real, inside, inside)


def mount_tree(model: Path, files: Iterable[Path]) -> Mount:
    """Mount the smallest folder in which the model's files and all that they link to lie.

    In the hub cache a snapshot is made of links to ``../../blobs``, or to blobs that several repositories share; a
    mount of the snapshot alone would hold links to nowhere.

    Raises:
        UnusableModel: a file links to somewhere that can't be mounted along.
    """
    links = [(file, file.resolve()) for file in files]
    for root in _roots(model):
        real_root = root.resolve()
        if all(real.is_relative_to(real_root) and _stays_inside(file, real_root) for file, real in links):
            inside = model.absolute().relative_to(root.absolute()).as_posix()
            return Mount(real_root, MODELS, MODELS if inside == "." else f"{MODELS}/{inside}")
    stray = next((f"{file.name} → {os.readlink(file)}" for file, _ in links if file.is_symlink()), str(model))
    raise UnusableModel(
        f"{model} has files that are links to elsewhere ({stray}); the container can't follow them.",
        mend=f"cp -rL '{model}' /some/folder   # makes real files of them\nmake up MODEL=/some/folder",
    )


def check_readable(mount: Mount, files: Iterable[Path], uid: int, settings: Settings) -> None:
    """Check that the container's user can read the files; in our own cache they are made so.

    Folders above the mount don't count: Docker mounts as root.

    Raises:
        WeightsUnreadable: it couldn't.
    """
    ours = models_root(settings).resolve()
    for item in _on_the_way(mount.host_path, files):
        try:
            state = item.stat()
        except PermissionError:
            raise _unreadable(mount, item, uid) from None
        needed = 0o5 if stat.S_ISDIR(state.st_mode) else 0o4
        if _allows(state, needed, uid):
            continue
        if item.resolve().is_relative_to(ours) and state.st_uid in (os.geteuid(), 0):
            item.chmod(stat.S_IMODE(state.st_mode) | needed * 0o111)
            continue
        raise _unreadable(mount, item, uid)


def container_uid(settings: Settings) -> int:
    """The user that the stack's containers run as: the workspace's owner, or 1000 where that is root."""
    try:
        owner = settings.workspace.stat().st_uid
    except OSError:
        owner = os.geteuid()
    return owner or 1000


def _roots(model: Path) -> list[Path]:
    """Folders that may be mounted for a model, the smallest first."""
    roots = [model]
    if model.parent.name == "snapshots":
        repo = model.parent.parent
        roots.append(repo)
        if repo.name.startswith("models--"):
            roots.append(repo.parent)
    return roots


def _stays_inside(file: Path, root: Path) -> bool:
    """Whether each link on the way is relative and stays below the root, so that it leads to the same file inside."""
    current, hops = file, 0
    while current.is_symlink() and hops < 20:
        target = Path(os.readlink(current))
        if target.is_absolute():
            return False
        current = Path(os.path.normpath(current.parent.resolve() / target))
        if not current.is_relative_to(root):
            return False
        hops += 1
    return True


def _on_the_way(root: Path, files: Iterable[Path]) -> list[Path]:
    """Everything that has to be readable: the files themselves, and the folders from the mount down to them."""
    items: dict[Path, None] = {root: None}
    for file in files:
        for path in (file.absolute(), file.resolve()):
            folders = [folder for folder in path.parents if folder.is_relative_to(root)]
            items.update(dict.fromkeys(reversed(folders)))
        items[file.resolve()] = None
    return list(items)


def _allows(state: os.stat_result, needed: int, uid: int) -> bool:
    mode = stat.S_IMODE(state.st_mode)
    if uid == 0 or mode & needed == needed:
        return True
    return state.st_uid == uid and (mode >> 6) & needed == needed


def _unreadable(mount: Mount, item: Path, uid: int) -> WeightsUnreadable:
    return WeightsUnreadable(
        f"{item} can't be read by user {uid}, as whom the inference server runs.",
        mend=f"chmod -R a+rX '{mount.host_path}'",
    )
