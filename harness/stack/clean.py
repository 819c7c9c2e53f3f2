"""Remove everything that is ours from this machine, and nothing else.

Ours is what carries our label or the project's, what the ledger of builds names, our own cache of weights, and what
`up` keeps in the clone. Results (``runs/``), the hub cache that other tools share and pulled images stay.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import Any

from harness import console, docker_engine, models
from harness.docker_engine import FOR_PROJECT_LABEL, ROLE_LABEL
from harness.errors import StackError
from harness.settings import Settings
from harness.stack import images
from harness.stack.down import down, remove_networks, remove_volumes


@dataclass(frozen=True)
class Inventory:
    """What `clean` would remove."""

    containers: tuple[str, ...]
    images: tuple[str, ...]
    weights: int  # bytes

    def lines(self) -> list[str]:
        """For a person who is about to say yes."""
        found = []
        if self.containers:
            found.append(f"containers: {', '.join(self.containers)}")
        if self.images:
            found.append(f"images: {', '.join(self.images)}, and the build cache behind them")
        if self.weights:
            found.append(f"weights in our own cache: {self.weights / 1e6:.0f} MB")
        return found


def inventory(client: Any, settings: Settings) -> Inventory:
    """Look at what there is of ours.

    Raises:
        StackError: a stack of another project still uses our images.
    """
    mine = docker_engine.containers(client, settings.project)
    references = images.image_references(client, settings)
    _refuse_if_used_by_others(client, settings, references)
    return Inventory(tuple(c.name for c in mine), tuple(references), models.disk_usage(settings))


def clean(client: Any, settings: Settings) -> None:
    """Remove it all; each step says what it did."""
    with console.step("containers, volumes, network"):
        down(client, settings)
        for helper in client.containers.list(all=True, filters={"label": ROLE_LABEL}, ignore_removed=True):
            # Another project's samplers belong to a stack that runs.
            if helper.labels.get(FOR_PROJECT_LABEL, settings.project) == settings.project:
                helper.remove(force=True)
        remove_volumes(client, settings)
        remove_networks(client, settings)
    with console.step("images") as step:
        step.text = f"images ({len(images.remove_images(client, settings))})"
    with console.step("build cache") as step:
        removed = images.remove_build_cache(client, settings)
        step.text = f"build cache ({removed.bytes / 1e6:.0f} MB)"
    if removed.undecided:
        console.warn(
            f"{removed.undecided} records of the build cache may be ours or somebody else's, and were left",
            "docker builder prune   # removes everybody's",
        )
    with console.step("weights") as step:
        step.text = f"weights ({models.remove(settings) / 1e6:.0f} MB)"
    shutil.rmtree(settings.state_dir, ignore_errors=True)


def _refuse_if_used_by_others(client: Any, settings: Settings, references: list[str]) -> None:
    for container in client.containers.list(all=True, ignore_removed=True):
        labels = container.labels
        project = labels.get(docker_engine.PROJECT_LABEL) or labels.get(FOR_PROJECT_LABEL, "")
        if project != settings.project and container.attrs["Config"]["Image"] in references:
            raise StackError(
                f"The container {container.name} of the project `{project or 'none'}` uses our image"
                f" {container.attrs['Config']['Image']}.",
                consequence="Nothing was removed, for that would have taken it away from under a running stack.",
                mend=f"make down PROJECT={project}" if project else f"docker rm -f {container.name}",
            )
