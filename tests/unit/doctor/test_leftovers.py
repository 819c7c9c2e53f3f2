"""What is left of ours in Docker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.doctor.topics.stack_leftovers import Left, decide, gather

GOOD = Left("a" * 64, "drydock-dev-1", "drydock", "running", clone="/home/you/drydock", age=5000)
HELPER = Left("b" * 64, "drydock-dev-1-sampler", "drydock", "running", role="sampler", age=5000)


def signs(*found: Left) -> list[str]:
    return [finding.sign for finding in decide(list(found), "drydock")]


def test_a_stack_in_order_is_fine() -> None:
    assert signs() == signs(GOOD, HELPER) == ["ok"]


@pytest.mark.parametrize(
    "left",
    [
        replace(HELPER, target_gone=True),
        replace(HELPER, status="exited"),
        replace(HELPER, status="created"),
    ],
)
def test_a_helper_that_helps_nobody(left: Left) -> None:
    (finding,) = decide([GOOD, left], "drydock")
    assert finding.sign == "warn"
    assert finding.fix == ("docker", "rm", "-f", left.id)


def test_another_stacks_helper_is_never_removed_for_you() -> None:
    (finding,) = decide([GOOD, replace(HELPER, status="exited", project="dd-other")], "drydock")
    assert finding.sign == "warn"
    assert finding.fix == ()


def test_a_helper_that_is_just_being_started_is_left_alone() -> None:
    assert signs(GOOD, replace(HELPER, status="created", age=3)) == ["ok"]


def test_a_container_of_an_older_version() -> None:
    (finding,) = decide([replace(GOOD, image_gone=True)], "drydock")
    assert finding.sign == "bad"
    assert finding.fix == ("docker", "rm", "-f", GOOD.id)
    # Another stack's is that one's business.
    assert "bad" not in signs(replace(GOOD, image_gone=True, project="dd-other"))


def test_a_stack_whose_clone_is_gone() -> None:
    (finding,) = decide([replace(GOOD, project="old", clone="/gone", clone_gone=True)], "drydock")
    assert finding.sign == "warn"
    assert finding.mend == "make down PROJECT=old"


def test_other_stacks_are_told() -> None:
    assert signs(GOOD, replace(GOOD, project="second")) == ["ok", "note"]


class FakeClient:
    """An engine with a few containers; the SDK's ``api``, as far as it is asked."""

    def __init__(self, containers: list[dict[str, Any]], images: list[dict[str, Any]]) -> None:
        self.api = self
        self._containers, self._images = containers, images

    def containers(self, *, all: bool) -> list[dict[str, Any]]:
        assert all
        return self._containers

    def images(self) -> list[dict[str, Any]]:
        return self._images


def container(id_: str, name: str, image: str, image_id: str, **labels: str) -> dict[str, Any]:
    return {
        "Id": id_ * 64, "Names": [f"/{name}"], "Image": image, "ImageID": image_id, "State": "running", "Created": 0,
        "Labels": labels,
    }  # fmt: skip


def test_only_what_is_ours_is_looked_at(tmp_path: Path) -> None:
    client = FakeClient(
        [
            container("a", "drydock-dev-1", "drydock/dev:1", "sha256:new", **{
                "com.docker.compose.project": "drydock", "com.docker.compose.project.working_dir": str(tmp_path),
            }),
            container("b", "old-dev-1", "sha256:old", "sha256:old", **{
                "com.docker.compose.project": "old", "dev.drydock.image": "dev",
                "com.docker.compose.project.working_dir": str(tmp_path / "gone"),
            }),
            container("c", "left-sampler", "drydock/dev:1", "sha256:new", **{
                "dev.drydock.role": "sampler", "dev.drydock.project": "drydock",
                "dev.drydock.target": "f" * 64 + " 2026-11-30T12:00:00Z",
            }),
            container("d", "shop", "nginx", "sha256:n"),
            container("e", "drydock-inference-1", "drydock/sglang@sha256:1", "sha256:pulled"),
        ],
        [
            {"Id": "sha256:new", "RepoTags": ["drydock/dev:1"]},
            {"Id": "sha256:old", "RepoTags": ["<none>:<none>"], "RepoDigests": ["<none>@<none>"]},
            {"Id": "sha256:pulled", "RepoTags": [], "RepoDigests": ["x@sha256:1"]},
        ],
    )  # fmt: skip
    dev, old, sampler, pulled = gather(client, "drydock", our_files=True)
    assert (dev.image_gone, dev.clone_gone, dev.target_gone) == (False, False, False)
    assert (old.image_gone, old.clone_gone, old.project) == (True, True, "old")
    assert not pulled.image_gone
    assert (sampler.role, sampler.target_gone, sampler.project) == ("sampler", True, "drydock")
