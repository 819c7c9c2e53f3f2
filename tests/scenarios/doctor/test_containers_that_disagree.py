"""The doctor looks into the stack's containers: versions that differ, mounts that lead nowhere any more.

The containers only sleep: they carry the labels, the mounts and the package metadata of a real stack.
"""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from harness import __version__, docker_engine
from harness.settings import load_settings
from harness.stack.images.base import ensure_base
from harness.stack.images.catalogue import load_catalogue
from harness.stack.images.host_config import read_host_config
from tests.support.harness import Stack

pytestmark = pytest.mark.docker

# A Ray node as far as the doctor looks: /opt/venv's Python, and what it says is installed.
DOCKERFILE = """
FROM {base}
RUN mkdir -p /opt/venv/bin && ln -s /usr/bin/python3 /opt/venv/bin/python
RUN for p in {packages}; do d=/usr/lib/python3/dist-packages/$p.dist-info; mkdir -p $d; \\
    printf 'Metadata-Version: 2.1\\nName: %s\\nVersion: %s\\n' ${{p%-*}} ${{p##*-}} > $d/METADATA; done
CMD ["sleep", "100000"]
"""


@pytest.fixture(scope="module")
def client() -> docker.DockerClient:
    return docker_engine.connect()


@pytest.fixture(scope="module")
def images(client: docker.DockerClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Two Ray nodes' images, by their version of Ray."""
    settings = load_settings(environ={})
    base = ensure_base(client, settings, load_catalogue(), lambda: read_host_config(settings))
    made = {}
    for ray in ("2.60.0", "2.52.0"):
        folder = tmp_path_factory.mktemp("image")
        packages = f"ray-{ray} debugpy-1.8.22 drydock-{__version__}"
        (folder / "Dockerfile").write_text(DOCKERFILE.format(base=base.reference, packages=packages))
        made[ray] = f"drydock-doctor-test:{ray}"
        subprocess.run(["docker", "build", "--quiet", "--tag", made[ray], str(folder)], check=True)
    yield made
    for image in made.values():
        client.images.remove(image, force=True)


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    stack = Stack(f"drydock-doctor-{uuid.uuid4().hex[:8]}", tmp_path)
    yield stack
    label = f"{docker_engine.PROJECT_LABEL}={stack.project}"
    for container in docker_engine.connect().containers.list(all=True, filters={"label": label}):
        container.remove(force=True)


def node(client: docker.DockerClient, stack: Stack, service: str, image: str, workspace: Path) -> None:
    client.containers.run(
        image,
        detach=True,
        name=f"{stack.project}-{service}-1",
        labels={docker_engine.PROJECT_LABEL: stack.project, docker_engine.SERVICE_LABEL: service},
        volumes={str(workspace): {"bind": "/workspace", "mode": "rw"}},
    )


def texts(document: dict[str, Any], check: str, sign: str) -> list[str]:
    return [f["text"] for f in document["findings"] if f["check"] == check and f["sign"] == sign]


def test_nodes_that_agree_are_fine(client: docker.DockerClient, images: dict[str, str], stack: Stack) -> None:
    for service in ("dev", "ray-head"):
        node(client, stack, service, images["2.60.0"], stack.folder)
    document = stack.run("doctor", "--json", TOPIC="stack").json()
    versions, mounts = texts(document, "stack.inside", "ok")
    assert "Ray 2.60.0" in versions
    assert "in all 2 Ray nodes" in versions
    assert mounts == "all 2 mounts lead to what is there now"
    # No inference server was started, and the doctor misses it.
    assert any(text.startswith("inference missing") for text in texts(document, "stack.services", "bad"))


def test_another_ray_in_a_worker_is_named_with_its_container(
    client: docker.DockerClient, images: dict[str, str], stack: Stack
) -> None:
    node(client, stack, "ray-head", images["2.60.0"], stack.folder)
    node(client, stack, "ray-worker", images["2.52.0"], stack.folder)
    ended = stack.run("doctor", "--json", TOPIC="stack")
    assert ended.code == 1
    (text,) = texts(ended.json(), "stack.inside", "bad")
    assert text == (f"Ray differs: 2.60.0 in {stack.project}-ray-head-1, 2.52.0 in {stack.project}-ray-worker-1.")
    assert "different images" in texts(ended.json(), "stack.images", "bad")[0]


def test_a_workspace_that_was_replaced_or_removed_under_the_containers(
    client: docker.DockerClient, images: dict[str, str], stack: Stack
) -> None:
    workspace = stack.folder / "workspace"
    workspace.mkdir()
    node(client, stack, "dev", images["2.60.0"], workspace)
    # Cloned anew: the same path, another folder.
    workspace.rename(stack.folder / "old")
    workspace.mkdir()
    document = stack.run("doctor", "--json", TOPIC="stack").json()
    assert texts(document, "stack.inside", "bad") == [
        f"{workspace} was replaced since {stack.project}-dev-1 mounted it."
    ]
    workspace.rmdir()
    document = stack.run("doctor", "--json", TOPIC="stack").json()
    assert texts(document, "stack.inside", "bad") == [f"{workspace} is gone, and {stack.project}-dev-1 had it mounted."]


def test_a_paused_container_does_not_hold_the_doctor_up(
    client: docker.DockerClient, images: dict[str, str], stack: Stack
) -> None:
    node(client, stack, "dev", images["2.60.0"], stack.folder)
    client.containers.get(stack.container("dev")).pause()
    document = stack.run("doctor", "--json", TOPIC="stack").json()
    assert all(check["finished"] for check in document["checks"])
    assert any(text.startswith("dev paused") for text in texts(document, "stack.services", "bad"))
