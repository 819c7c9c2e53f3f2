"""Weights on their way to another machine: which files they are, and where they lie there.

Weights lie in one of two places, each found by its own rules on every machine: our own cache, and Hugging Face's. So
a file is carried under the name of the place and its path in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.models.cache import hub_cache, models_root, record_commit, repo_folder
from harness.models.plan import ModelPlan, want
from harness.models.weights import ModelFiles
from harness.settings import Engine, Settings


def places(settings: Settings) -> dict[str, Path]:
    """The two places on this machine, by the name under which files of theirs are carried."""
    return {"models": models_root(settings), "hub": hub_cache()}


def carried(files: ModelFiles, settings: Settings) -> list[tuple[str, Path]]:
    """Everything of these weights, links as links: the name to carry it under, and where it is now.

    Returns:
        empty for weights in neither place: a folder or file of the user's own, which only they can put in place.
    """
    for name, root in places(settings).items():
        if files.host_path.resolve().is_relative_to(root.resolve()):
            found = sorted(_below(files.host_path))
            return [
                (f"{name}/{path.resolve().parent.joinpath(path.name).relative_to(root.resolve())}", path)
                for path in found
            ]
    return []


def arrived(plan: ModelPlan, engine: Engine, settings: Settings, commit: str | None) -> None:
    """Note on the other machine what the revision asked for stood for, so that it need not ask the hub."""
    wanted = want(plan, engine)
    if commit and wanted.source == "hub":
        for repo in filter(lambda repo: repo_folder(repo).is_dir(), wanted.repos):
            record_commit(settings, repo, wanted.revision, commit)


def _below(path: Path) -> Iterator[Path]:
    if path.is_symlink() or path.is_file():
        yield path
    elif path.is_dir():
        for item in path.iterdir():
            yield from _below(item)
