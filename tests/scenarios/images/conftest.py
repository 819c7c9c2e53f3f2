"""A small clone whose one image is built with the real helper scripts, under a namespace of the test's own."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from harness import docker_engine
from harness.settings import Settings, load_settings
from harness.stack.images import ensure_base_image, remove_build_cache, remove_images
from harness.stack.images.build import BuiltImage, Recipe, build
from harness.stack.images.catalogue import Catalogue, ImageSpec, load_catalogue
from harness.stack.images.context import entries_for
from harness.stack.images.host_config import read_host_config
from tests.support.harness import CLONE

DOCKERFILE = """\
ARG BASE
FROM ${BASE}
RUN --mount=type=bind,source=build,target=/build \\
    --mount=type=secret,id=apt_sources --mount=type=secret,id=apt_conf --mount=type=secret,id=ca_bundle \\
    /build/apt-install hello
RUN --mount=type=bind,source=build,target=/build --mount=type=bind,source=locks,target=/locks \\
    --mount=type=bind,source=wheels,target=/wheels \\
    --mount=type=secret,id=pip_conf --mount=type=secret,id=netrc --mount=type=secret,id=ca_bundle \\
    /build/pip-install /opt/venv /locks/small.txt
COPY note.txt /note.txt
"""
SMALL = ImageSpec("small", "docker/small", ("small", "tools"))


@dataclass
class Workshop:
    """Builds the small image.

    Attributes:
        clone: the small clone; its files may be changed before a build.
        base: what it is built on, the real base image.
    """

    client: Any
    settings: Settings
    clone: Path
    base: BuiltImage

    def recipe(self) -> Recipe:
        """All that decides what the small image will be."""
        catalogue = Catalogue(self.clone, load_catalogue(CLONE).base, {"small": SMALL})
        return Recipe("small", self.base.reference, self.base.id, entries_for(catalogue, SMALL))

    def build(self, **changed: Any) -> BuiltImage:
        """Build it with this machine's configuration as it is now, some settings changed."""
        return self.build_with([], **changed)

    def build_with(self, wheels: list[Path], **changed: Any) -> BuiltImage:
        """The same with wheels in the build."""
        settings = self.settings.but(**changed)
        return build(self.client, settings, self.recipe(), read_host_config(settings), wheels, "the small image")


@pytest.fixture
def namespace() -> str:
    return f"test-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def own_settings(namespace: str, tmp_path: Path) -> Iterator[Settings]:
    """Settings with a namespace, a project and a ledger of the test's own; all that was made of them is removed."""
    settings = load_settings({"namespace": namespace, "project": namespace, "cache": tmp_path / "cache"}, environ={})
    yield settings
    client = docker_engine.connect()
    remove_images(client, settings)
    remove_build_cache(client, settings)
    shutil.rmtree(settings.state_dir, ignore_errors=True)


@pytest.fixture
def workshop(own_settings: Settings, tmp_path: Path) -> Workshop:
    client = docker_engine.connect()
    clone = tmp_path / "clone"
    (clone / "docker/small").mkdir(parents=True)
    (clone / "docker/small/Dockerfile").write_text(DOCKERFILE)
    (clone / "docker/small/note.txt").write_text("first")
    shutil.copytree(CLONE / "docker/build", clone / "docker/build")
    (clone / "docker/locks").mkdir()
    shutil.copy(CLONE / "docker/locks/tools.txt", clone / "docker/locks")
    # The base is everybody's: made once, kept.
    base = ensure_base_image(client, load_settings())
    return Workshop(client, own_settings, clone, replace(base, fresh=False))
