"""The user's own project: what it asks for is there in `dev` and in every Ray task, and its own source is what runs."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.stack import own
from tests.scenarios.stack.own import in_dev_and_in_a_task
from tests.support.harness import CLONE, Ended, Stack, docker, free_port, own_project

pytestmark = pytest.mark.docker


def test_a_requirement_that_the_image_lacks_is_there_in_dev_and_in_a_task(own_stack: Stack) -> None:
    slugs = in_dev_and_in_a_task(own_stack, "slugify('A Task on a Worker')", before="from slugify import slugify")
    assert slugs == ("a-task-on-a-worker", "a-task-on-a-worker")
    # It is the requirement's doing.
    assert not locked("python-slugify")


def locked(name: str) -> str:
    """The version of a package that the Ray nodes' image keeps to, "" where it has none."""
    for line in (CLONE / "docker" / "locks" / "dev.txt").read_text().splitlines():
        if line.startswith(f"{name}=="):
            return line.removeprefix(f"{name}==").split()[0]
    return ""


def test_the_project_is_the_same_folder_in_dev_and_in_a_task(own_stack: Stack, own_workspace: Path) -> None:
    assert (
        in_dev_and_in_a_task(own_stack, "open('/workspace/requirements.txt').read()")
        == ((own_workspace / "requirements.txt").read_text(),) * 2
    )


def test_files_that_containers_write_belong_to_the_projects_owner(own_stack: Stack, own_workspace: Path) -> None:
    owner = own_workspace.stat()
    write = "import pathlib, socket\nplace = pathlib.Path('/workspace', socket.gethostname())\nplace.write_text('x')"
    names = in_dev_and_in_a_task(own_stack, "place.name", before=write)
    for name in names:
        written = (own_workspace / name).stat()
        assert (written.st_uid, written.st_gid) == (owner.st_uid, owner.st_gid)
    own_stack.run("run", CMD="echo kept > from-run.txt").ok()
    assert (own_workspace / "from-run.txt").stat().st_uid == owner.st_uid
    newest = max((own_stack.folder / "runs").glob("*-run"), key=lambda path: path.stat().st_mtime)
    assert (newest / "result.json").stat().st_uid == owner.st_uid


def test_a_checkouts_own_source_is_what_runs_and_an_edit_is_seen_at_once(own_stack: Stack, checkout: Path) -> None:
    look, before = "[tinyframework.__file__, tinyframework.version()]", "import tinyframework"
    file = f"/framework/{checkout.name}/tinyframework/__init__.py"
    assert in_dev_and_in_a_task(own_stack, look, before=before) == ([file, "as cloned"], [file, "as cloned"])
    ids = own_stack.ids()
    source = checkout / "tinyframework" / "__init__.py"
    source.write_text(source.read_text().replace("as cloned", "as edited"))
    try:
        assert in_dev_and_in_a_task(own_stack, look, before=before) == ([file, "as edited"], [file, "as edited"])
        # Nor does the edit make anything anew.
        again = own_stack.run("up", "--json").ok()
        assert again.json()["changed"] == []
        assert "your project" not in again.stderr
    finally:
        source.write_text(source.read_text().replace("as edited", "as cloned"))
    assert own_stack.ids() == ids


def test_up_again_builds_nothing(own_stack: Stack) -> None:
    before = docker("images", "--quiet", "--no-trunc", "--filter", "label=dev.drydock.image=user")
    ended = own_stack.run("up", "--json").ok()
    assert ended.json()["changed"] == []
    # Where it did, it would say so on a line with the time it took.
    assert "your project" not in ended.stderr
    assert "image of" not in ended.stderr
    assert ended.json()["seconds"] < 10
    assert docker("images", "--quiet", "--no-trunc", "--filter", "label=dev.drydock.image=user") == before


@pytest.fixture
def refused(tmp_path: Path) -> Iterator[Stack]:
    """A stack that can't come up, of which nothing may be there afterwards."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    settings = {
        "ENGINE": "external",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        "WORKSPACE": str(workspace),
        "PORT": str(free_port()),
        "DASHBOARD_PORT": str(free_port()),
    }
    stack = Stack(own_project("refused"), tmp_path, settings)
    yield stack
    assert stack.ids() == {}


def test_a_workspace_that_the_containers_user_may_not_enter_is_refused_before_anything_starts(refused: Stack) -> None:
    workspace = Path(refused.settings["WORKSPACE"])
    workspace.chmod(0o077 if workspace.stat().st_uid else 0o700)
    try:
        ended = refused.run("up", "--json")
    finally:
        workspace.chmod(0o755)
    assert (ended.code, ended.json()["error"]) == (3, "FolderClosed"), ended
    assert f"chmod -R a+rX {workspace}" in ended.json()["mend"]


def with_requirements(stack: Stack, text: str) -> Ended:
    """`up` with this as the project's requirements.txt."""
    Path(stack.settings["WORKSPACE"], "requirements.txt").write_text(text)
    ended = stack.run("up")
    assert "Traceback" not in ended.stderr, ended
    assert "✗" in ended.stderr, ended
    assert "→" in ended.stderr, ended
    return ended


def test_a_requirement_against_what_the_image_keeps_to_names_both_sides(refused: Stack) -> None:
    ended = with_requirements(refused, "ray==2.9.3\n")
    assert ended.code == 2, ended
    assert "ray==2.9.3" in ended.stderr
    assert f"ray=={locked('ray')}" in ended.stderr


def test_a_requirement_that_nobody_has_is_named(refused: Stack) -> None:
    ended = with_requirements(refused, f"{own.REQUIREMENT.partition('==')[0]}==0.0.0.999\n")
    assert ended.code == 3, ended
    assert "slugify==0.0.0.999" in ended.stderr


def test_requirements_that_cannot_be_read_name_the_line(refused: Stack) -> None:
    ended = with_requirements(refused, "# fine\nthis is no requirement\n")
    assert ended.code == 2, ended
    assert "Line 2 of requirements.txt is no requirement: 'this is no requirement'" in ended.stderr


# The last, for it makes another project of the workspace.
def test_a_project_with_a_pyproject_is_installed_as_it_lies_there(own_stack: Stack, own_workspace: Path) -> None:
    kept = (own_workspace / "requirements.txt").read_text()
    (own_workspace / "requirements.txt").unlink()
    package = own_workspace / "src" / "my_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (own_workspace / "pyproject.toml").write_text(
        textwrap.dedent(f"""
        [build-system]
        requires = ["setuptools>=68"]
        build-backend = "setuptools.build_meta"
        [project]
        name = "my-package"
        version = "1.0"
        dependencies = ["{own.REQUIREMENT}"]
        """)
    )
    own.belongs_to(own_workspace, own.UID)
    try:
        # Nobody says that anything changed.
        assert "dev" in own_stack.run("up", "--json").ok().json()["changed"]
        look = "[my_package.__file__, slugify('A Task')]"
        expected = ["/workspace/src/my_package/__init__.py", "a-task"]
        before = "import my_package\nfrom slugify import slugify"
        assert in_dev_and_in_a_task(own_stack, look, before=before) == (expected, expected)
    finally:
        (own_workspace / "pyproject.toml").unlink()
        shutil.rmtree(own_workspace / "src")
        (own_workspace / "requirements.txt").write_text(kept)
        own.belongs_to(own_workspace, own.UID)
