"""A build context has the files it should, and its digest changes with what matters and with nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.stack.images.build import Recipe
from harness.stack.images.catalogue import BaseSpec, Catalogue, ImageSpec
from harness.stack.images.context import Entry, digest, entries_for, stage

BASE = BaseSpec("debian:12", "bookworm", 1, ("python3",))
SPEC = ImageSpec("thing", "docker/thing", ("thing",), {"lib": "src/lib", "mixed": ["src/lib", "one.txt"]})


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    files = {
        "docker/thing/Dockerfile": "FROM x",
        "docker/thing/run.sh": "#!/bin/sh",
        "docker/build/apt-install": "#!/bin/sh",
        "docker/locks/thing.txt": "a==1",
        "src/lib/a.py": "a = 1",
        "src/lib/__pycache__/a.pyc": "x",
        "one.txt": "1",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "docker/thing/run.sh").chmod(0o755)
    return tmp_path


def entries(clone: Path) -> list[Entry]:
    return entries_for(Catalogue(clone, BASE, {}), SPEC)


def test_files_go_where_the_catalogue_says(clone: Path) -> None:
    assert [entry.path for entry in entries(clone)] == [
        "Dockerfile",
        "build/apt-install",
        "lib/a.py",
        "locks/thing.txt",
        "mixed/lib/a.py",
        "mixed/one.txt",
        "run.sh",
    ]


def test_the_digest_stays_when_only_times_and_umask_change(clone: Path) -> None:
    before = digest(entries(clone))
    path = clone / "src/lib/a.py"
    path.chmod(0o600)
    path.write_text(path.read_text())
    (clone / "src/lib/__pycache__/b.pyc").write_text("new")
    assert digest(entries(clone)) == before


@pytest.mark.parametrize("change", ["content", "name", "executable", "fact"])
def test_the_digest_changes_with_content_names_and_modes(clone: Path, change: str) -> None:
    before = digest(entries(clone), "fact")
    path = clone / "src/lib/a.py"
    if change == "content":
        path.write_text("a = 2")
    elif change == "name":
        path.rename(path.with_name("b.py"))
    elif change == "executable":
        path.chmod(0o755)
    assert digest(entries(clone), "another" if change == "fact" else "fact") != before


def test_a_tag_changes_with_base_and_arguments_but_not_with_uncounted_files() -> None:
    files = [Entry("Dockerfile", b"FROM x")]
    recipe = Recipe("thing", "base:1", "sha256:1", files, {"A": "1"})
    tag = recipe.tag("ns")
    assert tag.startswith("ns/thing:")
    assert Recipe("thing", "base:2", "sha256:1", files, {"A": "1"}, [Entry("x", b"")]).tag("ns") == tag
    assert Recipe("thing", "base:1", "sha256:2", files, {"A": "1"}).tag("ns") != tag
    assert Recipe("thing", "base:1", "sha256:1", files, {"A": "2"}).tag("ns") != tag


def test_staging_makes_modes_equal_and_links_wheels(clone: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "w-1-py3-none-any.whl"
    wheel.write_bytes(b"w")
    folder = tmp_path / "staged"
    folder.mkdir()
    (clone / "src/lib/a.py").chmod(0o600)
    stage(entries(clone), [wheel], folder)
    assert (folder / "lib/a.py").stat().st_mode & 0o777 == 0o644
    assert (folder / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (folder / "wheels" / wheel.name).samefile(wheel)
