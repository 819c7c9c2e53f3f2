"""The user's own project as one layer on the Ray nodes' environment: its requirements, and editable checkouts.

The layer is made anew when what is installed may change (requirements, pyproject.toml, setup files), not with every
edit of the source: that is mounted at the same path when the containers run, and the installation only points to it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import BadSetting
from harness.settings import Settings
from harness.stack.images.context import SKIPPED_FOLDERS, SKIPPED_SUFFIXES, Entry

# What decides what gets installed, and under which name.
PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg", "MANIFEST.in")
# What a build backend may look at, besides Python files: versions, readmes, licences, lists of requirements.
_SMALL = 512_000
_SUFFIXES = (".py", ".pyi", ".toml", ".cfg", ".txt", ".md", ".rst", ".in", ".ini", ".lock")
_BARE = re.compile(r"^(version|license|licence|copying|notice|authors|readme|py\.typed|manifest\.in)", re.IGNORECASE)


@dataclass(frozen=True)
class UserProject:
    """What is to be installed for the user.

    Attributes:
        counted: files that decide what is installed; with the editable ones' paths they make the layer's key.
        uncounted: the rest of the source, for build backends to find packages in.
        editable: paths in the containers that are installed as editable; counted as a file with a line for each,
            since a path may have spaces.
        described: what a person reads.
    """

    counted: list[Entry]
    uncounted: list[Entry]
    editable: tuple[str, ...]
    described: str


def find_user_project(settings: Settings, framework_name: str | None = None) -> UserProject | None:
    """What the settings and the workspace ask for, None where there is nothing to install.

    Args:
        framework_name: the checkout's folder in the containers, below ``/framework``.

    Raises:
        BadSetting: ``REQUIREMENTS`` is no file, or the checkout is no Python project.
    """
    counted: list[Entry] = []
    # The folders have to be there even if nothing is in them.
    uncounted = [Entry(f"{folder}/.keep", b"") for folder in ("requirements", "workspace", "framework")]
    editable: list[str] = []
    described: list[str] = []
    requirements = _requirements(settings)
    if requirements is not None:
        for name, path in _with_included(requirements):
            counted.append(Entry(f"requirements/{name}", path))
        counted.append(Entry("requirements/requirements.name", requirements.name.encode()))
        described.append(requirements.name)
    elif _is_project(settings.workspace):
        _add_project(settings.workspace, "workspace/", counted, uncounted)
        editable.append("/workspace")
        described.append(f"{settings.workspace.name} (editable)")
    if settings.framework_src is not None:
        name = framework_name or settings.framework_src.name
        if not _is_project(settings.framework_src):
            raise BadSetting(
                f"FRAMEWORK_SRC={settings.framework_src} has neither a pyproject.toml of a project nor a setup.py.",
                mend="make up FRAMEWORK_SRC=CHECKOUT   # the folder that `pip install -e` would be given",
            )
        _add_project(settings.framework_src, f"framework/{name}/", counted, uncounted)
        editable.insert(0, f"/framework/{name}")
        described.append(f"{name} (editable)")
    if not described:
        return None
    counted.append(Entry("requirements/editable.paths", "".join(f"{path}\n" for path in editable).encode()))
    return UserProject(counted, uncounted, tuple(editable), ", ".join(described))


def _requirements(settings: Settings) -> Path | None:
    """The list of requirements, None where there is none."""
    if settings.requirements is not None:
        if not settings.requirements.is_file():
            raise BadSetting(
                f"REQUIREMENTS={settings.requirements} is no file.",
                mend="make up REQUIREMENTS=path/to/requirements.txt",
            )
        return settings.requirements
    default = settings.workspace / "requirements.txt"
    return default if default.is_file() else None


def _with_included(requirements: Path) -> Iterator[tuple[str, Path]]:
    """A list of requirements and those that it includes (``-r``, ``-c``) from at or below its own folder."""
    root = requirements.parent.resolve()
    waiting, seen = [requirements.resolve()], set()
    while waiting:
        path = waiting.pop()
        if path in seen or not path.is_file():
            continue
        if not path.is_relative_to(root):
            raise BadSetting(
                f"{requirements.name} includes {path}, which is outside its own folder.",
                mend="move it, or copy its lines",
            )
        seen.add(path)
        yield path.relative_to(root).as_posix(), path
        for match in re.finditer(
            r"^\s*(?:-r|-c|--requirement|--constraint)[ =]\s*(\S+)", path.read_text(encoding="utf-8"), re.MULTILINE
        ):
            if "://" not in match[1]:
                waiting.append((path.parent / match[1]).resolve())


def _is_project(folder: Path) -> bool:
    """Whether ``pip install -e`` would take the folder; a pyproject.toml with only tools' settings is no project."""
    if (folder / "setup.py").is_file():
        return True
    try:
        text = (folder / "pyproject.toml").read_text(encoding="utf-8")
    except OSError:
        return False
    return re.search(r"^\[(project|build-system)\]", text, re.MULTILINE) is not None


def _add_project(folder: Path, prefix: str, counted: list[Entry], uncounted: list[Entry]) -> None:
    for path in _source_files(folder):
        relative = path.relative_to(folder).as_posix()
        decides = relative in PROJECT_FILES or re.fullmatch(
            r"(requirements[^/]*/)?[^/]*requirements[^/]*\.(txt|in)", relative
        )
        (counted if decides else uncounted).append(Entry(prefix + relative, path))


def _source_files(folder: Path) -> Iterator[Path]:
    """Small text files of a checkout in a fixed order: no data, no weights, no virtual environments, nothing hidden."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if name not in SKIPPED_FOLDERS and not name.startswith(".") and not Path(place, name, "pyvenv.cfg").exists()
        )
        for name in sorted(files):
            path = Path(place, name)
            if name.endswith(SKIPPED_SUFFIXES) or not (name.endswith(_SUFFIXES) or _BARE.match(name)):
                continue
            if path.is_file() and not path.is_symlink() and path.stat().st_size <= _SMALL:
                yield path
