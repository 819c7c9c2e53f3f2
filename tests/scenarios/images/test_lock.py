"""The lock against Debian's docker-registry on this machine: `make lock`, and what a pull does with what is locked."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import docker_engine
from harness.errors import FloatingTag, ImageMoved, ImageUnavailable
from harness.settings import Settings
from harness.stack.images.base import pull_locked
from harness.stack.images.lock import Lock, Locked, lock_path, read_lock
from harness.stack.images.registry import ask
from tests.support.harness import CLONE, Ended, Stack, docker
from tests.support.registry import PASSWORD, USER, Registry, refusing, registry_program, running

PLATFORMS = ("linux/amd64", "linux/arm64")


@pytest.fixture(scope="module")
def program() -> Path:
    found = registry_program()
    if found is None:
        pytest.skip("no docker-registry here, and no apt to get it with")
    return found


@pytest.fixture
def registry(program: Path, tmp_path: Path) -> Iterator[Registry]:
    (tmp_path / "registry").mkdir()
    with running(tmp_path / "registry", program) as found:
        yield found
        for image in docker("image", "ls", "--format", "{{.ID}}", f"{found.host}/*/*").split():
            docker("image", "rm", "--force", image, check=False)


class Clone:
    """A folder with a catalogue of one image, a lock, and the command run on it."""

    def __init__(self, folder: Path, image: str) -> None:
        self.folder = folder
        (folder / "docker").mkdir(parents=True)
        raw = yaml.safe_load((CLONE / "docker" / "images.yaml").read_text())
        raw |= {"base": {**raw["base"], "image": image}, "frameworks": {}}
        (folder / "docker" / "images.yaml").write_text(yaml.safe_dump(raw))

    def lock(self, **environment: Any) -> Ended:
        stack = Stack("lock-test", self.folder, {"DRYDOCK_HOME": str(self.folder)})
        return stack.run("lock", "--json", **environment)

    @property
    def locked(self) -> dict[str, Locked]:
        return read_lock(lock_path(self.folder)).entries


def outcomes(ended: Ended) -> list[str]:
    return [row["outcome"] for row in ended.json()["images"]]


def test_a_tag_is_locked_confirmed_seen_to_move_and_seen_to_vanish(registry: Registry, tmp_path: Path) -> None:
    first = registry.push("team/base", "v1", "one")
    image = f"{registry.host}/team/base:v1"
    clone = Clone(tmp_path / "clone", image)
    made = clone.lock().ok()
    assert outcomes(made) == ["new"]
    # The index's digest, not one platform's: so the lock holds on every architecture.
    assert (clone.locked[image].digest, clone.locked[image].platforms) == (first, PLATFORMS)
    again = clone.lock().ok()
    assert (outcomes(again), again.json()["written"]) == (["unchanged"], False)

    second = registry.push("team/base", "v1", "two")
    moved = clone.lock()
    (row,) = moved.json()["images"]
    assert (moved.code, row["outcome"], row["old"], row["new"]) == (1, "moved", first, second)
    assert clone.locked[image].digest == first
    clone.lock(UPDATE="1")
    assert clone.locked[image].digest == second

    registry.delete("team/base", second)
    gone = clone.lock()
    assert (gone.code, outcomes(gone)) == (1, ["gone"])
    assert "locked digest is gone" in gone.json()["images"][0]["note"]
    assert clone.locked[image].digest == second


def test_behind_a_mirror_the_plain_name_is_locked(registry: Registry, tmp_path: Path) -> None:
    digest = registry.push("hub/library/debian", "bookworm-slim", "one")
    clone = Clone(tmp_path / "clone", "debian:bookworm-slim")
    clone.lock(IMAGE_MIRROR=f"{registry.host}/hub").ok()
    assert clone.locked["debian:bookworm-slim"].digest == digest


def test_a_pull_takes_the_locked_digest_wherever_the_tag_leads(registry: Registry, own_settings: Settings) -> None:
    first = registry.push("team/base", "v1", "one")
    registry.push("team/base", "v1", "two")
    image = f"{registry.host}/team/base:v1"
    client = docker_engine.connect()
    name = pull_locked(client, own_settings, Lock({image: Locked(image, first, True)}), image)
    assert name == f"{image}@{first}"
    assert f"{registry.host}/team/base@{first}" in client.images.get(name).attrs["RepoDigests"]


def test_an_unverified_digest_is_compared_before_anything_is_pulled(registry: Registry, own_settings: Settings) -> None:
    first = registry.push("team/base", "v1", "one")
    second = registry.push("team/base", "v1", "two")
    image = f"{registry.host}/team/base:v1"
    client = docker_engine.connect()
    with pytest.raises(ImageMoved) as caught:
        pull_locked(client, own_settings, Lock({image: Locked(image, first, False, source="a file")}), image)
    assert first in caught.value.what
    assert second in caught.value.what
    assert docker_engine.image_id(client, f"{image}@{first}") is None
    pull_locked(client, own_settings, Lock({image: Locked(image, second, False)}), image)
    assert docker_engine.image_id(client, f"{image}@{second}")


def test_what_cannot_be_pulled_says_why_and_what_to_do(registry: Registry, own_settings: Settings) -> None:
    digest = registry.push("team/base", "v1", "one")
    image = f"{registry.host}/team/base:v1"
    client = docker_engine.connect()
    registry.delete("team/base", digest)
    with pytest.raises(ImageUnavailable, match="no such image any more") as caught:
        pull_locked(client, own_settings, Lock({image: Locked(image, digest, True)}), image)
    assert "make lock" in caught.value.mend
    with pytest.raises(FloatingTag):
        pull_locked(client, own_settings, Lock(), f"{registry.host}/team/base:latest")


@pytest.mark.parametrize(
    ("status", "code", "message", "failure"),
    [
        (429, "TOOMANYREQUESTS", "You have reached your pull rate limit", "limited"),
        (403, "DENIED", "requested access to the resource is denied", "login"),
        (503, "UNAVAILABLE", "down", "faulty"),
    ],
)
def test_a_registry_that_refuses_leaves_the_lock_alone(
    tmp_path: Path, status: int, code: str, message: str, failure: str
) -> None:
    with refusing(status, code, message) as host:
        assert ask(f"{host}/team/base:v1").failure == failure
        clone = Clone(tmp_path / "clone", f"{host}/team/base:v1")
        ended = clone.lock()
    assert (ended.code, outcomes(ended), clone.locked) == (3, ["not asked"], {})


def test_a_login_is_asked_for_and_used(program: Path, tmp_path: Path) -> None:
    (tmp_path / "registry").mkdir()
    with running(tmp_path / "registry", program, login=True) as registry:
        digest = registry.push("team/base", "v1", "one")
        image = f"{registry.host}/team/base:v1"
        clone = Clone(tmp_path / "clone", image)
        config = {"DOCKER_CONFIG": str(tmp_path / "docker-config")}
        refused = clone.lock(**config)
        assert (refused.code, outcomes(refused)) == (3, ["not asked"])
        assert "login" in refused.json()["images"][0]["note"]
        subprocess.run(
            ["docker", "login", "--username", USER, "--password-stdin", registry.host],
            input=PASSWORD, text=True, check=True, capture_output=True, env={**os.environ, **config},
        )  # fmt: skip
        allowed = clone.lock(**config).ok()
        assert clone.locked[image].digest == digest
    assert PASSWORD not in str(allowed)


@pytest.fixture
def bridge() -> str:
    """An address of this machine that isn't its loopback, where the engine insists on certificates."""
    network: Any = docker_engine.connect().networks.get("bridge").attrs
    address: str = network["IPAM"]["Config"][0].get("Gateway", "")
    if os.geteuid() != 0 or not address or not Path("/etc/docker").is_dir():
        pytest.skip("only root may tell this engine of an authority")
    return address


def test_a_private_authority_is_refused_until_the_engine_knows_it(program: Path, bridge: str, tmp_path: Path) -> None:
    certificate, key = tmp_path / "ca.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test authority",
         "-addext", f"subjectAltName=IP:{bridge}", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    (tmp_path / "registry").mkdir()
    with running(tmp_path / "registry", program, tls=(certificate, key), address=bridge) as registry:
        digest = registry.push("team/base", "v1", "one")
        clone = Clone(tmp_path / "clone", f"{registry.host}/team/base:v1")
        refused = clone.lock()
        assert (refused.code, outcomes(refused)) == (3, ["not asked"])
        assert "certificate" in refused.json()["images"][0]["note"]
        known = Path("/etc/docker/certs.d") / registry.host
        existed = known.parent.is_dir()
        try:
            known.mkdir(parents=True)
            shutil.copy(certificate, known / "ca.crt")
            clone.lock().ok()
        finally:
            shutil.rmtree(known, ignore_errors=True)
            if not existed:
                known.parent.rmdir()
        assert clone.locked[f"{registry.host}/team/base:v1"].digest == digest


def test_a_lock_by_hand_is_refused_with_its_entry(tmp_path: Path) -> None:
    clone = Clone(tmp_path / "clone", "debian:bookworm-slim")
    lock_path(clone.folder).write_text("images: [{image: 'debian:bookworm-slim', state: verified}]")
    ended = clone.lock()
    assert ended.code == 1
    assert ended.json()["error"] == "LockUnreadable"
