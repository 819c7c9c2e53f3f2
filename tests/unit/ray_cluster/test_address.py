"""Which cluster is meant, with which token, by which Python."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.errors import BadSetting
from harness.ray_cluster import checked_address, token
from harness.ray_cluster.address import host_and_port
from harness.ray_cluster.session import _plain, python_with_ray


@pytest.mark.parametrize("address", ["ray-head:6379", "10.0.0.1:6379", "ray://node1:10001", "[::1]:6379"])
def test_an_address_that_names_one_cluster_is_taken(address: str) -> None:
    assert checked_address(f" {address} ") == address


@pytest.mark.parametrize(
    "address", ["auto", "local", "", "ray-head", "http://127.0.0.1:8265", "a b:1", "-x:1", "a:b", "a:1;x"]
)
def test_what_could_lead_to_another_cluster_is_refused(address: str) -> None:
    with pytest.raises(BadSetting, match="names no cluster for sure"):
        checked_address(address)


def test_its_parts() -> None:
    assert host_and_port("ray://node1:10001") == ("node1", 10001)
    assert host_and_port("[::1]:6379") == ("::1", 6379)


def test_the_token_is_looked_for_where_ray_looks(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("from-file\n")
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("from-home\n")
    home = {"HOME": str(tmp_path)}
    assert token({**home, "RAY_AUTH_TOKEN": "given", "RAY_AUTH_TOKEN_PATH": str(tmp_path / "file")}) == "given"
    assert token({**home, "RAY_AUTH_TOKEN_PATH": str(tmp_path / "file")}) == "from-file"
    assert token(home) == "from-home"
    assert token({"HOME": "/nonexistent"}) == ""


def test_the_python_of_rays_own_program_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "ray"
    program.write_text(f"#!{sys.executable}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert python_with_ray() == sys.executable
    program.write_text("\x7fELF")
    assert python_with_ray() in (None, sys.executable)  # the latter where Ray is installed beside us
    program.unlink()
    assert python_with_ray() in (None, sys.executable)


def test_a_folder_named_ray_is_no_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = python_with_ray()
    (tmp_path / "ray").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert python_with_ray() == before


def test_another_version_is_said_in_plain_words() -> None:
    said = _plain(
        "RuntimeError: Version mismatch: The cluster was started with: Ray: 2.54.0 Python: 3.11.7 "
        "This process on node 10.0.0.1 was started with: Ray: 2.60.0 Python: 3.11.7"
    )
    assert said.startswith("its version isn't that of the Ray here (Ray: 2.54.0, Python: 3.11.7, Ray: 2.60.0")
    assert _plain("ConnectionError: no") == "ConnectionError: no"
