"""The script that makes an image's own Python fit for a Ray node: what it reads, and what it refuses."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

CLONE = Path(__file__).parents[4]


@pytest.fixture
def environment() -> ModuleType:
    spec = importlib.util.spec_from_file_location("environment", CLONE / "docker/node/environment.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_wanted_is_read_with_extras_and_bounds(environment: ModuleType) -> None:
    wanted = environment.read_wanted(CLONE / "docker/node/wanted.txt")
    assert wanted["ray"] == ("ray[default]", ">=2.52")
    assert wanted["py-spy"] == ("py-spy", ">=0.4.1")
    assert wanted["ipython"] == ("ipython", "")


def test_all_that_is_wanted_stands_in_the_lock(environment: ModuleType) -> None:
    locked = environment.read_lock(CLONE / "docker/locks/dev.txt")
    for name, (_, bound) in environment.read_wanted(CLONE / "docker/node/wanted.txt").items():
        assert environment.numbers(locked[name]) >= environment.numbers(bound), name


@pytest.mark.parametrize(
    ("versions", "python", "words"),
    [
        ({"ray": "2.51.2"}, (3, 12, 1), "Ray 2.51.2; before 2.52 Ray has no token authentication"),
        ({}, (3, 9, 18), "Python 3.9.18; 3.10 is the oldest"),
    ],
)
def test_what_will_not_do_is_refused_with_the_reason(
    environment: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    versions: dict[str, str],
    python: tuple[int, ...],
    words: str,
) -> None:
    monkeypatch.setattr(environment, "version_of", versions.get)
    monkeypatch.setattr(sys, "version_info", python)
    with pytest.raises(SystemExit):
        environment.refuse_if_unfit()
    assert capsys.readouterr().out.startswith(f"DRYDOCK-REFUSED: FRAMEWORK's image has {words}")


@pytest.mark.parametrize(
    ("libc", "words"),
    [(("glibc", "2.17"), "glibc 2.17; 2.28 is the oldest"), (("", ""), "another C library than glibc")],
)
def test_an_old_or_another_c_library_is_refused(
    environment: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    libc: tuple[str, str],
    words: str,
) -> None:
    monkeypatch.setattr(environment.platform, "libc_ver", lambda: libc)
    with pytest.raises(SystemExit):
        environment.refuse_if_unfit()
    assert capsys.readouterr().out.startswith(f"DRYDOCK-REFUSED: FRAMEWORK's image has {words}")


@pytest.mark.parametrize("ray", [None, "2.52.0", "2.60.0.dev0"])
def test_a_new_enough_ray_or_none_will_do(
    environment: ModuleType, monkeypatch: pytest.MonkeyPatch, ray: str | None
) -> None:
    monkeypatch.setattr(environment, "version_of", {"ray": ray}.get)
    monkeypatch.setattr(environment.subprocess, "call", lambda *_, **__: 0)
    environment.refuse_if_unfit()
