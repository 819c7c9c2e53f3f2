"""Takes what docs/safety.md says holds away, one guard after another, in a copy of the clone: its test has to fail.

What containers hold (capabilities, seccomp, mounts) has its counterpart in stack/test_escape.py instead: the same
attempts in a container where nothing holds them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.harness import CLONE

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Guard:
    """A piece of source, what stands there without the guard, and who has to notice."""

    name: str
    file: str
    holds: str
    without: str
    tests: str


FIND_CLASS = "    def find_class(self, module: str, name: str) -> Any:\n"
WITHIN = "        target.is_relative_to(root)\n        and leads.is_relative_to(root)\n        and target.parent"
PICKLED = 'if pickled := sorted(path.glob("*.bin")) or sorted(path.glob("*.pt*")):'
PASSWORD = 'if scheme.lower() != "basic" or not same(_password(credentials), token):'
ELSEWHERE = 'if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):'
DUMPS = "tests/unit/hang/test_readers.py tests/unit/hang/test_bombs.py"

GUARDS = [
    Guard(
        "escapes of dumps reach no terminal", "harness/printable.py",
        "    return HARMFUL.sub(_written_out, text)\n\n\ndef _w", "    return text\n\n\ndef _w",
        "tests/unit/hang/test_command.py",
    ),
    Guard(
        "escapes of agents reach no terminal", "harness/printable.py",
        "return HARMFUL.sub(_written_out, text) if", "return text if", "tests/unit/test_console.py",
    ),
    Guard(
        "a pickle calls nothing", "harness/hang/readers/recorder.py",
        FIND_CLASS, FIND_CLASS + "        return super().find_class(module, name)\n", DUMPS,
    ),
    Guard(
        "links in a dump's archive", "harness/hang/readers/sources.py",
        "if not member.isreg() or not name", "if not name", DUMPS,
    ),
    Guard(
        "paths out of a saved stack", "harness/stack/loading.py", WITHIN, "        target.parent",
        "tests/unit/stack/test_saved.py",
    ),
    Guard(
        "hard links and devices in a saved stack", "harness/stack/loading.py",
        "if root is None or not inside or not (member.isfile() or member.issym()):", "if root is None or not inside:",
        "tests/unit/stack/test_saved.py",
    ),
    Guard(
        "pickled weights", "harness/models/folders.py", PICKLED, "if pickled := []:",
        "tests/unit/models/test_folders.py",
    ),
    Guard(
        "code beside weights", "harness/compare/driver/text.py",
        '"trust_remote_code": False', '"trust_remote_code": True', "tests/unit/compare/test_remote_code.py",
    ),
    Guard(
        "secrets in texts of a report", "harness/runs/folder.py",
        "self.redactor.text(text)", "text", "tests/unit/runs/test_folder.py",
    ),
    Guard(
        "secrets in JSON of a report", "harness/runs/folder.py",
        "json.dumps(self.redactor.data(value), indent", "json.dumps(value, indent", "tests/unit/runs/test_folder.py",
    ),
    Guard(
        "secrets in many files at once", "harness/runs/folder.py",
        "self.redactor.text(content) if isinstance(content, str) else content", "content",
        "tests/unit/runs/test_folder.py",
    ),
    Guard("Ray's dashboard asks for the token", "docker/dev/gate_rules.py", PASSWORD, "if False:", "tests/unit/dev"),
    Guard("requests of other sites", "docker/dev/gate_rules.py", ELSEWHERE, "if False:", "tests/unit/dev"),
    Guard(
        "the server asks for its key", "docker/gateway/gateway/auth.py",
        "return any(matches)", "return True", "tests/unit/gateway",
    ),
    Guard(
        "requirements outside the workspace", "harness/stack/images/user.py",
        "if not path.is_relative_to(root):", "if False:", "tests/unit/stack/images/test_user.py",
    ),
    Guard(
        "HTML in what agents say", "harness/runs/html/page.py", "autoescape=True", "autoescape=False",
        "tests/unit/runs tests/unit/hang tests/unit/checks tests/unit/compare",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The clone's files, to be changed."""
    folder = tmp_path_factory.mktemp("guards") / "clone"
    files = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=CLONE, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, files):
        if (CLONE / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CLONE / name, folder / name, follow_symlinks=False)
    return folder


def tried(copy: Path, tests: str) -> subprocess.CompletedProcess[str]:
    """Unit tests with the sources of the copy."""
    environment = {**os.environ, "PYTHONPATH": f"{copy}{os.pathsep}{copy / 'docker' / 'gateway'}"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *tests.split()]
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("guard", GUARDS, ids=[guard.name for guard in GUARDS])
def test_its_test_fails_without_it(copy: Path, guard: Guard) -> None:
    file = copy / guard.file
    source = file.read_text()
    assert guard.holds in source, "the guard was moved or renamed; name it here as it is now"
    file.write_text(source.replace(guard.holds, guard.without))
    try:
        done = tried(copy, guard.tests)
    finally:
        file.write_text(source)
    assert done.returncode == 1, f"nobody notices:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert "FAILED" in done.stdout, done.stdout[-2000:]


def test_with_all_of_them_they_pass(copy: Path) -> None:
    tests = sorted({one for guard in GUARDS for one in guard.tests.split() if one.endswith(".py")})
    done = tried(copy, " ".join(tests))
    assert done.returncode == 0, done.stdout[-3000:]
