"""On a machine with nothing but a Python, scripts/bootstrap.sh makes a .venv that works, and remakes it when it has to.

The clone is a small one: its lock holds a single package, which comes from a folder, so no index is asked.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

CLONE = Path(__file__).parents[3]
# The interpreter that the .venv of these tests was made with: outside it, so that nothing of it is inherited.
PYTHON = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"

PYPROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "small"
version = "1"
"""
# The least that can build an editable wheel.
BACKEND = """
import pathlib, zipfile
def build_editable(folder, config_settings=None, metadata_directory=None):
    with zipfile.ZipFile(pathlib.Path(folder, "small-1-py3-none-any.whl"), "w") as wheel:
        wheel.writestr("small.pth", str(pathlib.Path(__file__).parent / "src"))
        wheel.writestr("small-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: small\\nVersion: 1\\n")
        wheel.writestr("small-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("small-1.dist-info/RECORD", "")
    return "small-1-py3-none-any.whl"
"""
# All that the script may count on beside Python.
BARE = "bash awk cat chown dirname flock grep id ln ls mkdir mv readlink rm sed sha256sum stat tail tee uname"
COMPLETE = f'#!/bin/sh\nexec {PYTHON} "$@"\n'
# As Debian's without python3-venv; a .venv is made several seconds faster with it, so most tests take it.
NO_ENSUREPIP = f'#!/bin/sh\ncase "$*" in *ensurepip*) exit 1 ;; esac\nexec {PYTHON} "$@"\n'
PROOF = "import locked, small; print(locked.ANSWER, small.ANSWER)"


class SmallClone:
    """A clone with our scripts, one locked package and one editable module; its PATH holds what a bare machine has."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "my clone"
        self.programs = folder / "bin"
        self.programs.mkdir(parents=True)
        (self.folder / "docker/locks").mkdir(parents=True)
        shutil.copytree(CLONE / "scripts", self.folder / "scripts")
        for path, text in {
            "pyproject.toml": PYPROJECT,
            "backend.py": BACKEND,
            "src/small.py": "ANSWER = 'editable'\n",
        }.items():
            (self.folder / path).parent.mkdir(exist_ok=True)
            (self.folder / path).write_text(text)
        wheel = folder / "locked-1-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("locked.py", "ANSWER = 'locked'\n")
            archive.writestr("locked-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: locked\nVersion: 1\n")
            archive.writestr(
                "locked-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            archive.writestr("locked-1.dist-info/RECORD", "")
        self.lock = self.folder / "docker/locks/host.txt"
        self.lock.write_text(f"locked==1 \\\n    --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
        for tool in BARE.split():
            (self.programs / tool).symlink_to(shutil.which(tool) or pytest.fail(f"{tool} is not installed"))
        self.python = self.program("python3", NO_ENSUREPIP)
        self.environment = {
            "PATH": str(self.programs),
            "HOME": str(folder),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(folder),
        }

    def program(self, name: str, text: str) -> Path:
        path = self.programs / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def bootstrap(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", str(self.folder / "scripts/bootstrap.sh")],
            env=self.environment | environment,
            text=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def proof(self) -> str:
        """What the .venv can import."""
        return subprocess.check_output([self.folder / ".venv/bin/python", "-c", PROOF], text=True).strip()

    def distributions(self) -> list[str]:
        """The names of the packages in the .venv."""
        infos = (self.folder / ".venv/lib").glob("python3.*/site-packages/*.dist-info")
        return sorted(path.name.split("-")[0] for path in infos)

    @property
    def venv_made_at(self) -> int:
        return (self.folder / ".venv/pyvenv.cfg").stat().st_mtime_ns


@pytest.fixture
def clone(tmp_path: Path) -> SmallClone:
    return SmallClone(tmp_path)


@pytest.fixture
def ready(clone: SmallClone) -> SmallClone:
    """A clone whose .venv is made."""
    done = clone.bootstrap()
    assert done.returncode == 0, done.stderr
    return clone


def test_a_fresh_clone_gets_a_venv_and_the_second_call_says_and_changes_nothing(ready: SmallClone) -> None:
    assert ready.proof() == "locked editable"
    before = ready.venv_made_at
    again = ready.bootstrap()
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert ready.venv_made_at == before


def test_another_lock_remakes_the_venv(ready: SmallClone) -> None:
    ready.lock.write_text("# changed\n" + ready.lock.read_text())
    before = ready.venv_made_at
    assert ready.bootstrap().returncode == 0
    assert ready.venv_made_at > before
    assert ready.proof() == "locked editable"


def test_an_interrupted_bootstrap_is_begun_anew(ready: SmallClone) -> None:
    (ready.folder / ".venv/drydock-stamp").rename(ready.folder / ".venv/drydock-unfinished")
    shutil.rmtree(ready.folder / ".venv/lib")
    assert ready.bootstrap().returncode == 0
    assert ready.proof() == "locked editable"
    assert not (ready.folder / ".venv/drydock-unfinished").exists()


def test_a_moved_clone_gets_a_venv_of_its_own(ready: SmallClone) -> None:
    ready.folder = ready.folder.rename(ready.folder.with_name("moved clone"))
    assert ready.bootstrap().returncode == 0
    assert ready.proof() == "locked editable"


def test_a_venv_whose_python_is_gone_is_made_anew(ready: SmallClone) -> None:
    python = ready.folder / ".venv/bin/python"
    python.unlink()
    python.symlink_to("/nonexistent/python3.9")
    assert ready.bootstrap().returncode == 0
    assert ready.proof() == "locked editable"


def test_a_venv_that_is_not_ours_is_left_alone(clone: SmallClone) -> None:
    theirs = clone.folder / ".venv/their-file"
    theirs.parent.mkdir()
    theirs.touch()
    done = clone.bootstrap()
    assert done.returncode == 3
    assert "→ mv .venv .venv.mine" in done.stderr
    assert theirs.exists()


def test_a_package_with_another_hash_is_refused_and_the_venv_is_not_called_ready(clone: SmallClone) -> None:
    clone.lock.write_text("locked==1 --hash=sha256:" + "0" * 64 + "\n")
    done = clone.bootstrap()
    assert done.returncode == 1
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert "✗ The locked packages could not be installed." in done.stderr
    assert not (clone.folder / ".venv/drydock-stamp").exists()


def test_a_complete_python_makes_a_venv_with_its_own_pip(clone: SmallClone) -> None:
    clone.program("python3", COMPLETE)
    done = clone.bootstrap()
    assert done.returncode == 0, done.stderr
    assert "borrowing" not in done.stderr
    assert clone.proof() == "locked editable"
    assert "pip" in clone.distributions()


def test_without_ensurepip_a_pip_is_borrowed_and_nothing_else_with_it(clone: SmallClone) -> None:
    done = clone.bootstrap()
    assert done.returncode == 0, done.stderr
    assert "borrowing the pip of" in done.stderr
    assert clone.distributions() == ["locked", "small"]


def test_a_python_that_is_too_old_is_passed_over_for_a_newer_one(clone: SmallClone) -> None:
    clone.program("python3", "#!/bin/sh\nexit 1\n")
    clone.program("python3.10", NO_ENSUREPIP)
    done = clone.bootstrap()
    assert done.returncode == 0, done.stderr
    assert "Making .venv with python3.10" in done.stderr


def test_without_any_python_it_says_what_to_install(clone: SmallClone) -> None:
    clone.python.unlink()
    done = clone.bootstrap()
    assert done.returncode == 3
    assert "✗ No Python 3.10 or newer was found." in done.stderr


def test_without_venv_and_pip_an_ordinary_user_gets_the_commands(clone: SmallClone) -> None:
    # This Python is Debian's own (prefix /usr), as far as the script can see, and lacks what Debian packages apart.
    clone.program(
        "python3",
        f'#!/bin/sh\ncase "$*" in *ensurepip*|*"import venv"*|*"import os, pip"*) exit 1 ;;\n'
        f'*sys.prefix*) echo /usr; exit ;; esac\nexec {PYTHON} "$@"\n',
    )
    clone.program("apt-get", "#!/bin/sh\necho called >&2\n")
    done = clone.bootstrap(DRYDOCK_EUID="1000")
    assert done.returncode == 3
    package = f"python3.{sys.version_info.minor}-venv"
    assert f"apt-get install --yes --no-install-recommends {package}" in done.stderr.splitlines()[-1]
    assert "called" not in done.stderr


@pytest.fixture
def foreign_clone() -> Iterator[SmallClone]:
    """A clone that the user with number 1234 may read and not write."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield SmallClone(Path(folder))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_clone_that_cannot_be_written_is_named_with_its_mend(foreign_clone: SmallClone) -> None:
    done = subprocess.run(
        ["bash", str(foreign_clone.folder / "scripts/bootstrap.sh")],
        env=foreign_clone.environment,
        user=1234,
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 3
    assert "is not writable" in done.stderr
    assert "→ sudo chown -R" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_root_in_a_clone_of_another_user_leaves_the_venv_to_that_user(clone: SmallClone) -> None:
    for path in (clone.folder, *clone.folder.rglob("*")):
        os.chown(path, 1234, 1234)
    assert clone.bootstrap().returncode == 0
    assert (clone.folder / ".venv/bin").stat().st_uid == 1234
    assert clone.proof() == "locked editable"
