"""What people run into, made for real: the doctor names it, and FIX=1 mends what is safe."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tarfile
import time
import uuid
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import docker
import pytest

from harness import docker_engine
from harness.models import catalogue
from harness.models.packages import package_file
from tests.support import tiny_model
from tests.support.harness import CLONE, HARNESS, Stack


def texts(document: dict[str, Any], check: str, sign: str) -> list[str]:
    return [f["text"] for f in document["findings"] if f["check"] == check and f["sign"] == sign]


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    stack = Stack(f"drydock-doctor-{uuid.uuid4().hex[:8]}", tmp_path)
    yield stack
    # What was mended may have been that nothing ran.
    stack.run("down").ok()
    folder = CLONE / ".drydock" / stack.project
    if folder.is_dir():
        subprocess.run(["rm", "-rf", "--", str(folder)], check=True)


# --- training


@pytest.fixture
def training() -> Iterator[subprocess.Popen[bytes]]:
    """A training of two machines as the guides start it; it says when its environment can be read."""
    environment = {**os.environ, "NCCL_TIMEOUT": "300", "MASTER_ADDR": "localhost", "WORLD_SIZE": "16"}
    environment |= {"LOCAL_WORLD_SIZE": "8", "RANK": "3", "NCCL_SOCKET_IFNAME": "nosuchcard"}
    program = "print('ready', flush=True); import time; time.sleep(1000)  # train_grpo"
    with subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.kill()


def test_a_training_with_the_guides_environment(stack: Stack, training: subprocess.Popen[bytes]) -> None:
    ended = stack.run("doctor", "--json", TOPIC="training")
    document = ended.json()
    assert ended.code == 1
    variables = "\n".join(texts(document, "training.variables", "bad"))
    assert "NCCL_TIMEOUT=300 has no effect" in variables
    assert f"PID {training.pid} (" in variables
    addresses = [text for text in texts(document, "training.addresses", "bad") if f"PID {training.pid} (" in text]
    assert any("NCCL_SOCKET_IFNAME=nosuchcard names no interface" in text for text in addresses)
    assert any("MASTER_ADDR=localhost with 16 ranks, 8 of them" in text for text in addresses)
    training.kill()
    training.wait()
    assert f"PID {training.pid} " not in stack.run("doctor", TOPIC="training").stdout


# --- model


def test_weights_that_are_not_the_right_ones_are_found_and_removed(stack: Stack, tmp_path: Path) -> None:
    package = catalogue.load()["smollm2-135m"].package
    assert package is not None
    cache = tmp_path / "cache"
    file = package_file(cache / "models" / "smollm2-135m" / package.version, package)
    file.parent.mkdir(parents=True)
    # Whole, servable, and not what the catalogue names.
    tiny_model.write_gguf(file)
    stack.settings |= {"TOPIC": "model", "DRYDOCK_CACHE": str(cache)}
    ended = stack.run("doctor")
    assert ended.code == 1
    assert f"✗ {file} is not the file that it should be" in ended.stdout
    assert file.exists()
    # Without a terminal it is only shown.
    assert "nothing was run" in stack.run("doctor", FIX="1", DRYDOCK_YES="0").stdout
    assert file.exists()
    mended = stack.run("doctor", "--json", FIX="1", DRYDOCK_YES="1")
    assert not file.exists()
    assert mended.code == 0
    assert [fix["state"] for fix in mended.json()["fixes"]] == ["done"]


# --- Docker


@pytest.fixture
def client() -> docker.DockerClient:
    return docker_engine.connect()


@pytest.fixture
def image(client: docker.DockerClient) -> Iterator[str]:
    """An image that holds nothing; a container made from it never has to run."""
    content = BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        tar.addfile(tarfile.TarInfo(uuid.uuid4().hex))
    name = f"drydock-doctor-{uuid.uuid4().hex[:8]}"
    client.api.import_image_from_data(content.getvalue(), repository=name, tag="old")
    yield f"{name}:old"
    for tag in ("old", "new"):
        try:
            client.images.remove(f"{name}:{tag}", force=True)
        except docker.errors.ImageNotFound:
            continue


@pytest.mark.docker
def test_a_container_of_an_older_version_is_named_and_removed_when_a_person_says_yes(
    stack: Stack, client: docker.DockerClient, image: str
) -> None:
    labels = {
        docker_engine.PROJECT_LABEL: stack.project,
        docker_engine.SERVICE_LABEL: "dev",
        "dev.drydock.image": "dev",
    }
    old: Any = client.containers.create(image, ["/none"], name=f"{stack.project}-dev-1", labels=labels)
    try:
        # A newer image takes the name; the old one has none any more, as after every rebuild of a tag.
        content = BytesIO()
        with tarfile.open(fileobj=content, mode="w") as tar:
            tar.addfile(tarfile.TarInfo("newer"))
        client.api.import_image_from_data(content.getvalue(), repository=image.partition(":")[0], tag="old")
        document = stack.run("doctor", "--json", TOPIC="stack").json()
        (text,) = texts(document, "stack.leftovers", "bad")
        assert text.startswith(f"{stack.project}-dev-1 (created) is of an older version")
        shown = on_a_terminal(stack, answers={f"docker rm -f {old.id}": b"y\n"})
        assert "Looked at again" in shown
        assert not client.containers.list(all=True, filters={"id": old.id})
    finally:
        for left in client.containers.list(all=True, filters={"id": old.id}):
            left.remove(force=True)


def on_a_terminal(stack: Stack, answers: dict[str, bytes]) -> str:
    """Run ``harness doctor --topic stack --fix`` on a terminal: what is asked after one of these texts gets its answer,
    everything else a no."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(CLONE)
        os.execve(
            HARNESS, [str(HARNESS), "doctor", "--topic", "stack", "--fix"], {**stack.environment(), "DRYDOCK_YES": "0"}
        )
    shown, answered = "", 0
    while True:
        try:
            shown += os.read(terminal, 65536).decode("utf-8", "replace")
        except OSError:  # so a terminal tells that nobody writes to it any more
            break
        questions = shown.split("Run it?")
        while answered < len(questions) - 1:
            asked = questions[answered]
            os.write(terminal, next((answer for text, answer in answers.items() if text in asked), b"n\n"))
            answered += 1
    os.waitpid(pid, 0)
    os.close(terminal)
    return shown


@pytest.mark.docker
def test_a_vpn_over_our_network_is_seen(stack: Stack, client: docker.DockerClient) -> None:
    if os.geteuid() != 0:
        pytest.skip("routes need root")
    network = client.networks.create(
        f"{stack.project}_default", driver="bridge", labels={docker_engine.PROJECT_LABEL: stack.project}
    )
    interface = f"dd{uuid.uuid4().hex[:8]}"
    try:
        network.reload()
        subnet = network.attrs["IPAM"]["Config"][0]["Subnet"]
        # A bridge of nobody's, because wherever Docker is the kernel has that kind.
        subprocess.run(["ip", "link", "add", interface, "type", "bridge"], check=True)
        subprocess.run(["ip", "link", "set", interface, "up"], check=True)
        # A worse metric than the bridge's own: whoever uses that network meanwhile notices nothing.
        subprocess.run(["ip", "route", "add", subnet, "dev", interface, "metric", "4000"], check=True)
        found = stack.run("doctor", "--json", TOPIC="docker").json()
        assert texts(found, "docker.networks", "bad") == [
            f"Docker's network {stack.project}_default ({subnet}) collides with the route to {subnet} by {interface}."
        ]
    finally:
        network.remove()
        subprocess.run(["ip", "link", "del", interface], check=True)
    assert texts(stack.run("doctor", "--json", TOPIC="docker").json(), "docker.networks", "bad") == []


def test_keys_that_others_can_read_are_mended(stack: Stack) -> None:
    keys = CLONE / ".drydock" / stack.project / "secrets"
    keys.mkdir(parents=True)
    keys.chmod(0o700)
    key = keys / "api_key"
    key.write_text("canary-" + uuid.uuid4().hex)
    key.chmod(0o644)
    started = time.monotonic()
    ended = stack.run("doctor", TOPIC="stack", FIX="1", DRYDOCK_YES="1")
    assert f"✗ {key} can be read by others (mode 0644)." in ended.stdout
    assert key.stat().st_mode & 0o777 == 0o600, ended
    assert time.monotonic() - started < 120
