"""`make report` on a machine full of secrets, with runs that a hostile agent wrote: nothing of it goes out."""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import docker_engine
from tests.support.harness import CLONE, HARNESS, Stack

# No file or variable that is known to hold secrets holds these.
UNKNOWN = ("link", "locals", "page", "shape")


@pytest.fixture
def canaries() -> dict[str, str]:
    """A secret for each place in which people have one; no two alike, none of a shape that could be guessed."""
    places = ["key", "token", "environment", "hub", "ray", "netrc", "registry", "setting", *UNKNOWN]
    return {place: f"canary{place}{uuid.uuid4().hex}" for place in places}


@pytest.fixture
def stack(tmp_path: Path, canaries: dict[str, str]) -> Iterator[Stack]:
    stack = Stack(f"drydock-report-{uuid.uuid4().hex[:8]}", tmp_path)
    home, keys = tmp_path / "home", CLONE / ".drydock" / stack.project / "secrets"
    login = base64.b64encode(f"me:{canaries['registry']}".encode()).decode()
    for path, text in {
        keys / "api_key": canaries["key"],
        keys / "ray_token": canaries["token"],
        home / ".cache/huggingface/token": canaries["hub"],
        home / ".ray/auth_token": canaries["ray"],
        home / ".netrc": f"machine index.example.com login me password {canaries['netrc']}\n",
        home / ".docker/config.json": json.dumps({"auths": {"r.example.com": {"auth": login}}}),
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    stack.settings |= {
        "HOME": str(home), "HF_TOKEN": canaries["setting"], "WANDB_API_KEY": canaries["environment"],
    }  # fmt: skip
    write_runs(tmp_path, canaries)
    yield stack
    shutil.rmtree(CLONE / ".drydock" / stack.project)


def write_runs(folder: Path, canaries: dict[str, str]) -> None:
    """Runs as they are, with all secrets in them, and what an agent with bad intentions puts beside them."""
    check, dump = folder / "runs/20261130-120000-check", folder / "runs/20261130-110000-hang"
    check.mkdir(parents=True)
    dump.mkdir()
    (check / "result.json").write_text(json.dumps({"exit_code": 1, "env": {"A": canaries["environment"]}}))
    known = "".join(f"{name}: {value}\n" for name, value in canaries.items() if name not in UNKNOWN)
    (check / "output.log").write_text(f"{known}api_key={canaries['shape']}\n")
    (check / "report.html").write_text(canaries["page"])
    (check / "model.safetensors").write_bytes(b"weights" * 1000)
    tape = check / "tape"
    tape.mkdir()
    (tape / "recording.json").write_text("{}")
    (tape / "run-00001.jsonl").write_text("x" * 2_000_000)
    frames = [{"name": "step", "filename": "a.py", "line": 7, "locals": [{"name": "x", "repr": canaries["locals"]}]}]
    (dump / "rank0.json").write_text(json.dumps([{"pid": 1, "frames": frames}]))
    secret = folder / "id_rsa"
    secret.write_text(canaries["link"])
    (check / "innocent.json").symlink_to(secret)
    (check / "pictures").symlink_to(folder)
    os.mkfifo(check / "pipe.log")
    (check / "\x1b[2J\nfoo.log").write_text("a name that clears the screen")


def contents(archive: Path) -> dict[str, str]:
    with tarfile.open(archive) as tar:
        assert all(member.isfile() for member in tar.getmembers())
        return {
            member.name.partition("/")[2]: tar.extractfile(member).read().decode()  # type: ignore[union-attr]
            for member in tar.getmembers()
        }


def test_no_canary_leaves_and_nothing_is_written_over(stack: Stack, canaries: dict[str, str], tmp_path: Path) -> None:
    target = tmp_path / "report.tar.gz"
    ended = stack.run("report", OUT=str(target)).ok()
    inside = contents(target)
    everything = gzip.decompress(target.read_bytes()).decode("utf-8", "replace") + ended.stdout + ended.stderr
    assert [name for name, value in canaries.items() if value in everything] == []
    assert {"doctor.json", "settings.json", "packages.json", "runs/20261130-120000-check/output.log"} <= set(inside)
    assert inside["runs/20261130-120000-check/output.log"].count("[redacted]") == len(canaries) - 3
    assert json.loads(inside["runs/20261130-110000-hang/rank0.json"])[0]["frames"][0]["line"] == 7
    assert not [name for name in inside if name.endswith((".html", ".safetensors", "innocent.json", "id_rsa"))]
    left = {one["name"]: one["reason"] for one in json.loads(inside["what-is-in-here.json"])["left_out"]}
    assert left["runs/20261130-120000-check/tape"].startswith("a recording of")
    assert left["runs/20261130-120000-check/model.safetensors"] == "not a text"
    # Shown first, with sizes; no name does anything to a terminal.
    assert "bytes  doctor.json" in ended.stdout
    assert "\x1b" not in ended.stdout
    assert target.stat().st_mode & 0o777 == 0o600

    before = target.read_bytes()
    again = stack.run("report", OUT=str(target))
    assert again.code == 2
    assert f"✗ {target} is there already." in again.stderr
    assert target.read_bytes() == before


@pytest.mark.docker
def test_a_container_s_log_goes_in_and_its_environment_does_not(
    stack: Stack, canaries: dict[str, str], tmp_path: Path
) -> None:
    client = docker_engine.connect()
    image = next(tag for one in client.images.list(filters={"label": "dev.drydock.image=base"}) for tag in one.tags)
    labels = {docker_engine.PROJECT_LABEL: stack.project, docker_engine.SERVICE_LABEL: "dev"}
    name = f"{stack.project}-dev-1"
    said = f"echo lost my key {canaries['key']}; exit 3"
    container = client.containers.create(
        image, ["sh", "-c", said], name=name, labels=labels, environment={"X": canaries["link"]}
    )
    try:
        container.start()
        container.wait()
        document = stack.run("report", "--json", OUT=str(tmp_path / "report.tar.gz")).ok().json()
    finally:
        container.remove(force=True)
    inside = contents(Path(document["file"]))
    assert [one for one in document["left_out"] if one["name"].startswith("containers")] == []
    assert inside[f"containers/{name}.log"] == "lost my key [redacted]\n"
    (told,) = json.loads(inside["containers.json"])
    assert (told["name"], told["state"]["ExitCode"]) == (name, 3)
    assert canaries["link"] not in "".join(inside.values())
    assert "fingerprint.json" in inside
    assert {one["name"] for one in document["files"]} == set(inside) - {"what-is-in-here.json"}


def test_without_docker_and_as_nobody_it_is_written_all_the_same(stack: Stack, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("changing users needs root")
    place = Path("/tmp") / f"drydock-{uuid.uuid4().hex}"
    place.mkdir()
    place.chmod(0o777)
    code = "from harness.cli.entry import main; main()"
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    # A Python that nobody can start, which the tests' own need not be.
    packages = f"{Path(sys.prefix) / 'lib' / f'python3.{sys.version_info[1]}' / 'site-packages'}:{CLONE}"
    python = next((found for found in ("/usr/bin/python3",) if _is_like_ours(found)), None)
    if python is None:
        pytest.skip("no Python of the same version that everybody can start")
    environment = {"HOME": "/nonexistent", "PATH": "/nonexistent", "PYTHONPATH": packages}
    environment |= {"OUT": str(place / "report.tar.gz"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [shutil.which("setpriv") or "setpriv", *nobody[1:], python, "-c", code, "report"],
            env=environment, cwd="/", capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        inside = contents(place / "report.tar.gz")
    finally:
        shutil.rmtree(place)
    assert {"doctor.json", "packages.json", "settings.json"} <= set(inside)
    found = json.loads(inside["doctor.json"])
    assert not [one["text"] for one in found["findings"] if "failed itself" in one["text"]]
    assert "fingerprint.json" in inside["what-is-in-here.json"]
    assert HARNESS.exists()


def _is_like_ours(python: str) -> bool:
    ask = [python, "-c", "import sys; print(*sys.version_info[:2])"]
    if not Path(python).exists():
        return False
    said = subprocess.run(ask, capture_output=True, text=True, check=False).stdout.split()
    return said == [str(part) for part in sys.version_info[:2]]
