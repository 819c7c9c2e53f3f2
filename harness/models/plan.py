"""Turns ``MODEL=`` and ``ENGINE=`` into a plan: which weights, from where, under which names. Asks no network."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from harness import engines
from harness.engines import Format
from harness.errors import UnknownModel, UnusableModel
from harness.models import catalogue
from harness.models.catalogue import Entry
from harness.models.folders import check_folder, ggufs
from harness.models.gguf import parts, read_header
from harness.places import home
from harness.settings import Engine, Settings

Source = Literal["package", "hub", "folder", "gguf"]

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True)
class ModelPlan:
    """What ``MODEL=`` means.

    Attributes:
        given: the value as it was typed.
        source: where the weights come from.
        alias: the short name that the server answers to first.
        hub_id: the model's name on the hub; None for a local one.
        revision: the revision that was asked for with ``@``; None where none was.
        entry: its entry in the catalogue, if it has one.
        path: the local folder or GGUF file.
        gguf_repo: whether ``hub_id`` was given as the name of a GGUF repository.
    """

    given: str
    source: Source
    alias: str
    hub_id: str | None = None
    revision: str | None = None
    entry: Entry | None = None
    path: Path | None = None
    gguf_repo: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the server answers to, in any letter case; its path in the container comes on top."""
        candidates = [self.alias, self.hub_id, self.given, str(self.path) if self.path else None]
        names: dict[str, str] = {}
        for name in candidates:
            if name:
                names.setdefault(name.lower(), name)
        return tuple(names.values())


@dataclass(frozen=True)
class Want:
    """The weights that a plan comes down to for one engine.

    Attributes:
        source: where they come from.
        format: the format that the engine reads.
        repos: hub repositories to look in, the likeliest first.
        revision: the commit to take; None: the newest, which is then recorded.
        file: the GGUF file in the repository; None: picked when its list of files is known.
        size: bytes, approximately; 0 where unknown.
        path: the local file or folder.
    """

    source: Source
    format: Format
    repos: tuple[str, ...] = ()
    revision: str | None = None
    file: str | None = None
    size: int = 0
    path: Path | None = None


def resolve(settings: Settings) -> ModelPlan:
    """Find out what ``MODEL=`` means, and whether ``ENGINE=`` can serve it.

    Raises:
        UnknownModel: it names nothing.
        UnusableModel: it names something that isn't a whole model, or not one for this engine.
    """
    given = settings.model.strip()
    if settings.engine == "external":
        # Whatever that server calls its models; nobody here can know.
        return ModelPlan(given, "hub", given)
    plan = _resolve(given)
    want(plan, settings.engine)
    return plan


def want(plan: ModelPlan, engine: Engine) -> Want:
    """The weights that this engine needs for a plan.

    Raises:
        UnusableModel: the model isn't whole, or not in the format that the engine reads.
    """
    form = engines.weights_of(engine)
    if plan.path is not None:
        return _want_local(plan, plan.path, form, engine)
    if plan.gguf_repo and form == "safetensors":
        whole = plan.entry.hub_id if plan.entry else re.sub(r"-gguf$", "", str(plan.hub_id), flags=re.IGNORECASE)
        raise UnusableModel(
            f"{plan.hub_id} holds GGUF files, and ENGINE={engine} reads safetensors.",
            mend=f"make up ENGINE={engine} MODEL={whole}\nmake up ENGINE=llamacpp MODEL={plan.given}",
        )
    if plan.source == "package" and plan.entry and plan.entry.package:
        size = plan.entry.package.size if form == "gguf" else plan.entry.safetensors.size
        return Want("package", form, size=size)
    if plan.entry is not None:
        return _want_known(plan, plan.entry, form, engine)
    repos = [str(plan.hub_id)]
    if form == "gguf" and not plan.gguf_repo:
        repos.append(f"{plan.hub_id}-GGUF")
    return Want("hub", form, tuple(repos), plan.revision)


def _want_known(plan: ModelPlan, entry: Entry, form: Format, engine: Engine) -> Want:
    """A model of the catalogue that comes from the hub."""
    if form == "safetensors":
        return Want("hub", form, (entry.hub_id,), plan.revision or entry.revision, size=entry.safetensors.size)
    if plan.gguf_repo and entry.gguf:
        return Want(
            "hub", form, (entry.gguf.repo,), plan.revision or entry.gguf.revision, entry.gguf.file, entry.gguf.size
        )
    # A commit of the original repository says nothing about the repository with the GGUF, which has commits of its own.
    if plan.revision not in (None, entry.revision) or entry.gguf is None:
        raise UnusableModel(
            f"{plan.given} names a revision of {entry.hub_id}, which holds safetensors; ENGINE={engine} reads GGUF.",
            mend=f"make up ENGINE=vllm MODEL={plan.given}"
            + (f"\nmake up MODEL={entry.gguf.repo}@REVISION" if entry.gguf else f"\nmake up MODEL={entry.alias}"),
        )
    return Want("hub", form, (entry.gguf.repo,), entry.gguf.revision, entry.gguf.file, entry.gguf.size)


def _want_local(plan: ModelPlan, path: Path, form: Format, engine: Engine) -> Want:
    """A file or folder on this machine; whether it is whole is seen here, before anything is started."""
    if path.is_file():
        if form == "safetensors":
            raise UnusableModel(
                f"{plan.given} is a GGUF file, and ENGINE={engine} reads a folder with safetensors.",
                mend=f"make up ENGINE=llamacpp MODEL={plan.given}",
            )
        return _want_gguf(path)
    if form == "safetensors":
        model = check_folder(path)
        return Want("folder", form, size=model.size, path=path)
    found = ggufs(path)
    if len(found) == 1:
        return _want_gguf(found[0])
    if found:
        raise UnusableModel(
            f"{plan.given} holds {len(found)} GGUF files, and only one can be served.",
            mend="\n".join(f"make up MODEL={file}" for file in found[:4]),
        )
    check_folder(path)  # what it lacks is better news than which engine would read it
    raise UnusableModel(
        f"{plan.given} holds safetensors, and ENGINE={engine} reads GGUF.",
        mend=f"make up ENGINE=vllm MODEL={plan.given}",
    )


def _want_gguf(path: Path) -> Want:
    for part in (files := parts(path)):
        read_header(part)
    return Want("gguf", "gguf", size=sum(file.stat().st_size for file in files), path=path)


def _resolve(given: str) -> ModelPlan:
    if _looks_local(given):
        return _local(given, _absolute(given))
    name, _, revision = given.partition("@")
    entry = catalogue.find(name)
    if entry is not None:
        by_gguf = entry.gguf is not None and name.lower() == entry.gguf.repo.lower()
        plan = ModelPlan(given, "hub", entry.alias, entry.hub_id, revision or None, entry, gguf_repo=by_gguf)
        # The package holds one version of the weights; a revision can only mean the hub's.
        return replace(plan, source="package") if entry.package and not revision else plan
    if (path := _absolute(given)).exists():
        return _local(given, path)
    if _HUB_ID.fullmatch(name):
        holds_gguf = name.lower().endswith("gguf")
        return ModelPlan(given, "hub", name.rpartition("/")[2].lower(), name, revision or None, gguf_repo=holds_gguf)
    raise _unknown(given)


def _looks_local(given: str) -> bool:
    return given.startswith(("/", "./", "../", "~")) or given in (".", "..") or given.lower().endswith(".gguf")


def _absolute(given: str) -> Path:
    # From the clone, like every other path among the settings.
    return (home() / Path(given).expanduser()).absolute()


def _local(given: str, path: Path) -> ModelPlan:
    if not path.exists():
        kind = "file" if given.lower().endswith(".gguf") else "folder or file"
        raise UnknownModel(
            f"MODEL={given}: there is no such {kind}" + (f" ({path})." if str(path) != given else "."),
            mend=f"MODEL= takes a folder, a GGUF file, a hub id such as Qwen/Qwen3-0.6B, or one of: {_aliases()}",
        )
    if not (path.is_dir() or path.is_file()):
        raise UnusableModel(f"MODEL={given} is neither a folder nor a file.", mend="give a model folder or a GGUF file")
    stem = path.name if path.is_dir() else path.stem
    alias = re.sub(r"[^a-z0-9._-]+", "-", stem.lower()).strip("-") or "local"
    return ModelPlan(given, "folder" if path.is_dir() else "gguf", alias, path=path)


def _unknown(given: str) -> UnknownModel:
    close = catalogue.near(given)
    meant = f" Did you mean {' or '.join(close[:3])}?" if close else ""
    mend = f"make up MODEL={close[0]}" if close else f"make up MODEL={next(iter(catalogue.load()))}"
    return UnknownModel(
        f"MODEL={given} is no model that Drydock knows, no hub id and no folder.{meant}",
        mend=f"{mend}\nMODEL= takes a hub id such as Qwen/Qwen3-0.6B, a folder, a GGUF file, or one of: {_aliases()}",
    )


def _aliases() -> str:
    return ", ".join(catalogue.load())
