"""What we render reaches NVIDIA's hook with the right cards: in a Docker daemon of its own, with a fake of that hook.

Docker knows the driver `nvidia` when the program nvidia-container-runtime-hook is on its PATH as it starts; it then has
runc call that before a container's process starts. Ours writes down what it is told.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest

from harness.models import ModelFiles
from harness.settings import load_settings
from harness.stack import rendering
from harness.stack.gpu.machine import look
from harness.stack.images.catalogue import load_catalogue
from harness.stack.plan import Plan, make_plan, with_gpus
from tests.support.gpus import machine
from tests.support.harness import wait_for

pytestmark = pytest.mark.slow  # starts a Docker daemon

HOOK = """\
#!/bin/sh
# The state of the container comes on standard input; its bundle has what the process will be given.
bundle=$(sed -n 's/.*"bundle":"\\([^"]*\\)".*/\\1/p')
grep -o '"NVIDIA_[A-Z_]*=[^"]*"' "$bundle/config.json" | tr -d '"' >>LOG
echo "called $*" >>LOG
"""
SMI = """\
#!/bin/sh
case "$*" in
*--query-gpu*) printf '0, GPU-0, NVIDIA H100, 81559, 580.65\\n1, GPU-1, NVIDIA H100, 81559, 580.65\\n' ;;
*) echo '| CUDA Version: 13.0 |' ;;
esac
"""


@dataclass
class Daemon:
    """A Docker daemon of the test's own.

    Attributes:
        host: its address.
        log: what the hook was told.
    """

    host: str
    log: Path

    @property
    def told(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    if os.geteuid() != 0 or not shutil.which("dockerd") or not shutil.which("docker-init"):
        pytest.skip("only root can start a second Docker daemon, where there is one")
    folder = tmp_path_factory.mktemp("dockerd")
    programs = folder / "bin"
    programs.mkdir()
    for name, text in {
        "nvidia-container-runtime-hook": HOOK.replace("LOG", str(folder / "hook.log")),
        "nvidia-container-runtime": '#!/bin/sh\nexec runc "$@"\n',
        "nvidia-smi": SMI,
    }.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    host = f"unix://{folder}/sock"
    # In a network namespace of its own: a daemon without a bridge removes the machine's docker0, whosever that is, and
    # the bridges of its networks would outlive it.
    command = [
        "unshare", "--net", "dockerd", "--host", host, "--pidfile", str(folder / "pid"),
        "--data-root", str(folder / "root"), "--exec-root", str(folder / "exec"),
        "--bridge", "none", "--iptables=false",
        "--add-runtime", f"nvidia={programs}/nvidia-container-runtime",
    ]  # fmt: skip
    had_bridge = _default_bridge()
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        wait_for("the daemon", lambda: process.poll() is not None or _answers(host))
        if process.poll() is not None:
            pytest.skip(f"no second Docker daemon can run here: {(folder / 'log').read_text()[-300:]}")
        yield Daemon(host, folder / "hook.log")
    finally:
        process.terminate()
        process.wait()
        assert _default_bridge() == had_bridge, "the test's daemon took the machine's docker0"
        for place in (folder / "exec" / "netns").glob("*"):
            subprocess.run(["umount", str(place)], check=False, capture_output=True)


def _default_bridge() -> bool:
    return Path("/sys/class/net/docker0").exists()


def _answers(host: str) -> bool:
    try:
        client = docker.DockerClient(base_url=host)
        client.ping()
    except docker.errors.DockerException:
        return False
    return True


@pytest.fixture(scope="module")
def image(daemon: Daemon) -> str:
    """An image of one static program, which ends at once."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        archive.add(Path(str(shutil.which("docker-init"))).resolve(), arcname="init", filter=_as_a_program)
    docker.DockerClient(base_url=daemon.host).api.import_image_from_data(tar.getvalue(), repository="tiny", tag="1")
    return "tiny:1"


def _as_a_program(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mode = 0o755
    return member


def start(daemon: Daemon, plan: Plan, image: str, folder: Path, service: str) -> Any:
    """Start one service of the stack as it is rendered for a plan, with another image; returns the container."""
    (folder / "secrets").mkdir()
    for name in ("api_key", "ray_token", "hf_token"):
        (folder / "secrets" / name).write_text("x")
    served = ModelFiles(folder, "/models", "/models", ("q",), "safetensors", "7ae5", "hub", 10**9, 32768)
    values = rendering.variables(plan, dev_image=image, inference_image=image, served=served, keys=folder / "secrets")
    rendering.write_devices(plan)
    compose = rendering.compose_for(plan)
    rendering.write_env_file(compose.env_file, values)
    rendering.write_told(plan, values)
    # Limits aside: where this machine is itself a container, not even root may raise them.
    alone = folder / "alone.yaml"
    alone.write_text(
        f"services: {{{service}: {{network_mode: none, ports: !reset [], command: [--version], "
        "entrypoint: [/init], init: false, read_only: true, ulimits: !reset {}}}"
    )
    command = [*compose.command("-f", str(alone), "up", "--detach", "--no-deps", service)]
    environment = {**os.environ, "DOCKER_HOST": daemon.host}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    client = docker.DockerClient(base_url=daemon.host)
    (container,) = client.containers.list(all=True, filters={"label": f"com.docker.compose.service={service}"})
    container.wait()
    container.reload()
    return container


@pytest.mark.parametrize(("service", "cards"), [("inference", "0"), ("ray-head", "1,2,3"), ("dev", "1,2,3")])
def test_the_hook_is_told_of_a_services_own_cards(
    daemon: Daemon, image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service: str, cards: str
) -> None:
    monkeypatch.setattr("harness.settings.Settings.state_dir", property(lambda _: tmp_path / "state"))
    monkeypatch.setenv("RUNS", str(tmp_path))
    asked = {"ENGINE": "vllm", "GPUS_INFERENCE": "0", "PROJECT": "fake-gpu"}
    plan = with_gpus(make_plan(load_settings(environ=asked)), machine(4), load_catalogue())
    daemon.log.unlink(missing_ok=True)
    container = start(daemon, plan, image, tmp_path, service)
    try:
        assert container.attrs["State"]["ExitCode"] == 0, container.logs()
        (request,) = container.attrs["HostConfig"]["DeviceRequests"]
        assert (request["Driver"], ",".join(request["DeviceIDs"])) == ("nvidia", cards)
        assert f"NVIDIA_VISIBLE_DEVICES={cards}" in daemon.told
        assert "called prestart" in daemon.told
        assert container.attrs["HostConfig"]["ShmSize"] == 16 * 2**30
    finally:
        container.remove(force=True)


def test_the_machine_is_seen_as_one_with_gpus(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{daemon.log.parent}/bin:{os.environ['PATH']}")
    found = look(docker.DockerClient(base_url=daemon.host))
    assert ([gpu.index for gpu in found.gpus], found.driver, found.cuda, found.way) == (
        ["0", "1"],
        "580.65",
        "13.0",
        "nvidia",
    )
