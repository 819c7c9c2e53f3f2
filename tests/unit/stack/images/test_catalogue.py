"""The catalogue of images is whole, and names behind a mirror are right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.stack.images.catalogue import load_catalogue, mirrored

CLONE = Path(__file__).parents[4]
DIGEST = "sha256:" + "a" * 64


def test_every_image_has_its_folder_locks_and_contexts() -> None:
    catalogue = load_catalogue(CLONE)
    assert {"base", "node", "user", "dev", "llamacpp", "vllm"} <= set(catalogue.images)
    for spec in catalogue.images.values():
        assert (CLONE / spec.folder / "Dockerfile").is_file(), spec.kind
        for lock in spec.locks:
            assert (CLONE / "docker" / "locks" / f"{lock}.txt").is_file(), lock
        for what in spec.contexts.values():
            for part in [what] if isinstance(what, str) else what:
                assert (CLONE / part).exists(), part


def test_the_base_is_pinned_by_tag_and_digest() -> None:
    assert re.fullmatch(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}", load_catalogue(CLONE).base.image)


@pytest.mark.parametrize(
    ("image", "behind"),
    [
        (f"debian:bookworm-slim@{DIGEST}", f"mirror.lan:5000/hub/library/debian:bookworm-slim@{DIGEST}"),
        ("vllm/vllm-openai:v1", "mirror.lan:5000/hub/vllm/vllm-openai:v1"),
        ("docker.io/debian:12", "mirror.lan:5000/hub/library/debian:12"),
        ("ghcr.io/areal/runtime:1", "mirror.lan:5000/hub/ghcr.io/areal/runtime:1"),
    ],
)
def test_a_mirror_changes_the_name_and_neither_tag_nor_digest(image: str, behind: str) -> None:
    assert mirrored(image, "mirror.lan:5000/hub/") == behind


def test_without_a_mirror_names_stay() -> None:
    assert mirrored("debian:12", None) == "debian:12"


def test_what_a_framework_image_must_have_repeats_what_the_harness_needs() -> None:
    project = (CLONE / "pyproject.toml").read_text()
    needed = re.search(r"^dependencies = \[(.*?)^\]", project, re.MULTILINE | re.DOTALL)
    assert needed
    wanted = (CLONE / "docker/node/wanted.txt").read_text().splitlines()
    assert [name for name in re.findall(r'"([^"]+)"', needed[1]) if name not in wanted] == []
