"""What ``MODEL=`` needs of this machine: weights of a size, which are here or come from somewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.errors import DrydockError
from harness.settings import Settings


@dataclass(frozen=True)
class Model:
    """What ``MODEL=`` comes down to.

    Attributes:
        name: the alias that the server will answer to.
        source: where its weights come from; "" where MODEL can't be used, and for ENGINE=external.
        size: bytes of the weights, 0 where unknown.
        here: the weights are on this machine.
        problem: why MODEL can't be used.
    """

    name: str
    source: Literal["package", "hub", "folder", "gguf", ""] = ""
    size: int = 0
    here: bool = False
    problem: DrydockError | None = None


def gather_model(settings: Settings) -> Model:
    """Resolve the model and look for its weights; asks no network."""
    if settings.engine == "external":
        return Model(settings.model)
    from harness.models import installed, resolve
    from harness.models.cache import repo_folder
    from harness.models.plan import want

    try:
        plan = resolve(settings)
        wanted = want(plan, settings.engine)
    except DrydockError as error:
        return Model(settings.model, problem=error)
    if wanted.source in ("folder", "gguf"):
        return Model(plan.alias, wanted.source, wanted.size, here=True)
    folders = [repo_folder(repo) for repo in wanted.repos]
    here = any(
        # vLLM's weights of a package are converted from its GGUF, so either will do.
        item.model == plan.alias
        if wanted.source == "package"
        else settings.engine in item.engines and any(item.path.is_relative_to(folder) for folder in folders)
        for item in installed(settings)
    )
    return Model(plan.alias, wanted.source, wanted.size, here)
