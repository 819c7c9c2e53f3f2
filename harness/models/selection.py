"""Picks the files of a repository that an engine needs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness import engines
from harness.errors import HubRefused, UnknownModel, UnusableModel
from harness.models.folders import CONFIG, wanted
from harness.models.hub import Hub, Listing
from harness.models.plan import ModelPlan, Want

# Small and still good first; 4 bits with scales of their own is what most repositories offer.
_PREFERRED = ("q4_k_m", "q8_0", "q5_k_m", "q4_k_s", "q6_k", "q4_1", "q4_0", "f16", "bf16")

_FIRST_PART = re.compile(r"-00001-of-(\d{5})\.gguf$", re.IGNORECASE)
_LATER_PART = re.compile(r"-\d{5}-of-\d{5}\.gguf$", re.IGNORECASE)


def select(hub: Hub, plan: ModelPlan, want: Want) -> tuple[Listing, list[str]]:
    """The repository to fetch from and the files to fetch; for a GGUF its first part comes first.

    Raises:
        UnknownModel: no such repository or revision.
        UnusableModel: nothing in it that this engine reads.
        HubRefused, HubFaulty, HubUnreachable: the hub doesn't say.
    """
    first = hub.listing(want.repos[0], want.revision)
    if want.format == "safetensors":
        return first, _safetensors(first, plan)
    if names := gguf_names([file.path for file in first.files], want.file):
        return first, names
    for repo in want.repos[1:]:
        try:
            other = hub.listing(repo, None)
        except (UnknownModel, HubRefused):
            # The hub says 401 for what doesn't exist; either way there is nothing to be had.
            continue
        if names := gguf_names([file.path for file in other.files], None):
            return other, names
    if want.file is not None:
        raise UnusableModel(f"{first.repo} at {first.commit[:12]} has no file {want.file}.", mend=_others(first))
    none = f"neither {' nor '.join(want.repos)} has any" if len(want.repos) > 1 else f"{want.repos[0]} has none"
    raise UnusableModel(
        f"ENGINE={' and '.join(engines.reading('gguf'))} reads GGUF files, and {none}.",
        mend=f"make up ENGINE=vllm MODEL={plan.given}\nmake up MODEL=OWNER/NAME-GGUF   # if somebody else has made one",
    )


def gguf_names(names: Sequence[str], exact: str | None) -> list[str]:
    """The GGUF file to serve out of several, with all its parts; empty if there is none.

    Args:
        names: files of a repository or snapshot.
        exact: the one to take; None: the first of the preferred kinds.
    """
    if exact is not None:
        return _with_parts(exact, names) if exact in names else []
    whole = [name for name in names if name.lower().endswith(".gguf") and "/" not in name and _serves(name)]
    if not whole:
        return []
    for kind in _PREFERRED:
        for name in sorted(whole):
            if re.search(rf"[-._]{kind}[-.]", name.lower()):
                return _with_parts(name, names)
    return _with_parts(sorted(whole)[0], names)


def _serves(name: str) -> bool:
    """Neither a later part of a split file nor a vision projector."""
    if name.lower().startswith("mmproj"):
        return False
    return _FIRST_PART.search(name) is not None or _LATER_PART.search(name) is None


def _with_parts(name: str, names: Sequence[str]) -> list[str]:
    match = _FIRST_PART.search(name)
    if match is None:
        return [name]
    stem = name[: match.start()]
    return sorted(other for other in names if other.startswith(f"{stem}-") and _LATER_PART.search(other))


def _safetensors(listing: Listing, plan: ModelPlan) -> list[str]:
    names = [file.path for file in listing.files]
    picked = [name for name in names if wanted(name)]
    if CONFIG in names and any(name.endswith(".safetensors") for name in picked):
        return picked
    if any(name.lower().endswith(".gguf") for name in names):
        raise UnusableModel(
            f"{listing.repo} holds GGUF files and no safetensors.", mend=f"make up ENGINE=llamacpp MODEL={plan.given}"
        )
    if any(name.endswith((".bin", ".pt", ".pth")) for name in names):
        raise UnusableModel(
            f"{listing.repo} has its weights as pickle files only, not as safetensors.",
            consequence="Such files run code when they are loaded, so Drydock doesn't serve them.",
            mend="save it with transformers' save_pretrained(FOLDER) and give MODEL=FOLDER",
        )
    raise UnusableModel(
        f"{listing.repo} holds no language model (config.json and *.safetensors).", mend=_others(listing)
    )


def _others(listing: Listing) -> str:
    names = [file.path for file in listing.files]
    return f"it has: {', '.join(names[:8])}{' …' if len(names) > 8 else ''}"
