"""Where no interpreter is named, one is made on the first call, and said so; here from locks of a wheel of one line."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from harness.compare import interpreter
from harness.compare.interpreter import python_for
from harness.errors import BadSetting, LibraryMissing
from harness.processes import locked


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone with a lock, whose package index is a folder."""
    home = tmp_path / "clone"
    (home / "docker/locks").mkdir(parents=True)
    for module in (locked, interpreter):
        monkeypatch.setattr(module, "home", lambda: home)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    (home / "docker/locks/reference.txt").write_text(
        f"tiny==1 --hash=sha256:{wheel(wheels / 'tiny-1-py3-none-any.whl')}\n"
    )
    return home


def wheel(path: Path) -> str:
    """A package of one module; returns its sum."""
    about = "tiny-1.dist-info"
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("tiny.py", "here = True\n")
        out.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n")
        out.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        out.writestr(f"{about}/RECORD", f"tiny.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_one_is_made_once_and_said_so(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = python_for("")
    said = "".join(capsys.readouterr())
    assert Path(made).is_relative_to(clone)
    assert "torch and transformers aren't here: installing docker/locks/reference.txt" in said
    assert "COMPARE_PYTHON=PYTHON" in said
    subprocess.run([made, "-c", "import tiny; assert tiny.here"], check=True)
    assert python_for("") == made
    assert "".join(capsys.readouterr()) == ""


def test_what_cannot_be_installed_is_a_sentence_and_leaves_nothing(clone: Path) -> None:
    (clone / "docker/locks/reference.txt").write_text(f"torch==2.13.0+cpu --hash=sha256:{'0' * 64}\n")
    with pytest.raises(LibraryMissing) as raised:
        python_for("")
    told = " ".join(raised.value.as_dict().values())
    assert "reference.txt" in told
    assert "CPU build of torch isn't in the common index" in told
    assert "COMPARE_PYTHON=PYTHON" in told
    assert [path.name for path in (clone / ".drydock/tests").iterdir()] == ["reference.lock"]


def test_a_named_one_is_taken_and_nothing_is_made(clone: Path) -> None:
    assert python_for(sys.executable) == sys.executable
    with pytest.raises(BadSetting, match="COMPARE_PYTHON=/nowhere/python"):
        python_for("/nowhere/python")
    assert not (clone / ".drydock").exists()


def test_without_a_clone_an_interpreter_has_to_be_named(clone: Path) -> None:
    (clone / "docker/locks/reference.txt").unlink()
    with pytest.raises(LibraryMissing, match="aren't installed here") as raised:
        python_for("")
    assert "COMPARE_PYTHON=PYTHON" in raised.value.as_dict()["mend"]
