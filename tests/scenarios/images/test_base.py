"""The base image: pulled by digest where a registry answers, else made of Debian's packages, the same twice."""

from __future__ import annotations

import io
import tarfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness import docker_engine
from harness.errors import ImageUnavailable
from harness.settings import Settings
from harness.stack.images import bootstrap, ledger, remove_images
from harness.stack.images.apt_config import read_apt_config
from harness.stack.images.base import ensure_base
from harness.stack.images.build import BuiltImage
from harness.stack.images.catalogue import Catalogue, load_catalogue
from harness.stack.images.host_config import read_host_config
from tests.scenarios.images.conftest import Workshop
from tests.support.harness import CLONE
from tests.support.package_servers import NAME, ImageRegistry, PackageServer, serving

# Images, cache records and the base are shared by all that build.
pytestmark = pytest.mark.alone

PASSWORD = "c4n4ry-b45e"
# Nobody listens there: port 1 of the loopback.
NO_REGISTRY = "127.0.0.1:1/mirror"


def test_it_comes_out_bit_for_bit_the_same_from_another_mirror(own_settings: Settings) -> None:
    """Also: a mirror's name and password are in neither."""
    here = read_apt_config(None)
    if here.archive is None:
        pytest.skip("this machine knows no Debian mirror that could be handed on to")
    client = docker_engine.connect()
    spec = load_catalogue(CLONE).base
    server = PackageServer(PASSWORD, [], here.archive, here.security)
    with serving(server) as port:
        there = read_apt_config(f"http://{NAME}:{PASSWORD}@127.0.0.1:{port}/debian")
        ids, contents = [], []
        for number, apt in enumerate((here, there)):
            reference = f"{own_settings.namespace}/base:{number}"
            bootstrap.make_base(own_settings, spec, apt, reference, {"dev.drydock.namespace": own_settings.namespace})
            image = client.images.get(reference)
            ids.append(image.id)
            contents.append(b"".join(image.save()))
    assert server.asked
    assert ids[0] == ids[1]
    for name in (PASSWORD, f"127.0.0.1:{port}"):
        assert name.encode() not in contents[1], name


@pytest.fixture
def registry(workshop: Workshop) -> ImageRegistry:
    """A registry that has the real base's files as an image of one layer."""
    saved = io.BytesIO(b"".join(workshop.client.images.get(workshop.base.id).save()))
    with tarfile.open(fileobj=saved) as archive:
        name = next(member.name for member in archive.getmembers() if member.name.endswith("layer.tar"))
        layer = archive.extractfile(name)
        assert layer is not None
        return ImageRegistry(layer.read())


def pinned(digest: str) -> Catalogue:
    catalogue = load_catalogue(CLONE)
    return replace(catalogue, base=replace(catalogue.base, image=f"debian:bookworm-slim@{digest}"))


def test_a_registry_that_answers_is_pulled_from_behind_its_mirror_and_by_digest(
    workshop: Workshop, registry: ImageRegistry
) -> None:
    client = workshop.client
    with serving(registry) as port:
        name = f"127.0.0.1:{port}/hub/library/debian:bookworm-slim@{registry.digest}"
        settings = workshop.settings.but(image_mirror=f"127.0.0.1:{port}/hub")
        base = ensure_base(client, settings, pinned(registry.digest), lambda: read_host_config(settings))
        assert base.fresh
        assert f"/v2/hub/library/debian/manifests/{registry.digest}" in registry.pulled
        assert client.containers.run(base.id, ["python3", "-c", "print(42)"], remove=True) == b"42\n"
        registry.pulled.clear()
        again = ensure_base(client, settings, pinned(registry.digest), lambda: read_host_config(settings))
        assert (again.id, again.fresh, registry.pulled) == (base.id, False, [])
        assert name in remove_images(client, settings)
        assert docker_engine.image_id(client, name) is None


def test_where_no_registry_answers_one_is_made_within_seconds_of_asking(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[float] = []

    def make(*_: object) -> BuiltImage:
        made.append(time.monotonic())
        return workshop.base

    monkeypatch.setattr("harness.stack.images.base._bootstrap", make)
    settings = workshop.settings.but(image_mirror=NO_REGISTRY)
    started = time.monotonic()
    base = ensure_base(workshop.client, settings, pinned("sha256:" + "0" * 64), lambda: read_host_config(settings))
    assert base == workshop.base
    assert made[0] - started < 10


def test_base_registry_insists_and_says_what_to_do(workshop: Workshop) -> None:
    settings = workshop.settings.but(image_mirror=NO_REGISTRY, base="registry")
    with pytest.raises(ImageUnavailable, match="can't be pulled") as caught:
        ensure_base(workshop.client, settings, pinned("sha256:" + "0" * 64), lambda: read_host_config(settings))
    assert "IMAGE_MIRROR" in caught.value.mend


def test_nothing_is_asked_and_no_build_is_recorded_when_all_is_there(workshop: Workshop, tmp_path: Path) -> None:
    def never() -> None:
        raise AssertionError("this machine's configuration was read for nothing")

    settings = workshop.settings.but(base="bootstrap", namespace="drydock")
    base = ensure_base(workshop.client, settings, load_catalogue(CLONE), never)  # type: ignore[arg-type]
    assert not base.fresh
    assert list(ledger.read_steps(tmp_path / "cache")) == []
