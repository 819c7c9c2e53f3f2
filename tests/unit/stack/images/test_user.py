"""What of a user's project is installed, and what makes the layer anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadSetting
from harness.settings import load_settings
from harness.stack.images.context import digest
from harness.stack.images.user import UserProject, find_user_project

PROJECT = '[project]\nname = "mine"\nversion = "1"\n'


def project(**settings: Path) -> UserProject:
    found = find_user_project(load_settings(settings, environ={}))
    assert found is not None
    return found


def test_a_workspace_without_requirements_needs_nothing(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("")
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n")
    assert find_user_project(load_settings({"workspace": tmp_path}, environ={})) is None


def test_requirements_are_taken_with_what_they_include(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("-r req/more.txt\nsix\n")
    (tmp_path / "req").mkdir()
    (tmp_path / "req/more.txt").write_text("-c ../pins.txt\n")
    (tmp_path / "pins.txt").write_text("six==1\n")
    found = project(workspace=tmp_path)
    assert [entry.path for entry in found.counted] == [
        "requirements/requirements.txt",
        "requirements/req/more.txt",
        "requirements/pins.txt",
        "requirements/requirements.name",
        "requirements/editable.paths",
    ]
    assert found.editable == ()


def test_requirements_outside_their_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("six")
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/requirements.txt").write_text("-r ../other.txt\n")
    with pytest.raises(BadSetting, match="outside its own folder"):
        find_user_project(load_settings(dict(workspace=tmp_path / "ws"), environ={}))


def test_an_absent_file_is_a_bad_setting(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="is no file"):
        find_user_project(load_settings(dict(workspace=tmp_path, requirements=tmp_path / "absent.txt"), environ={}))


def test_a_project_is_editable_where_it_is_mounted(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "mine.py").write_text("x = 1")
    assert project(workspace=tmp_path).editable == ("/workspace",)


def test_a_checkout_comes_before_the_workspaces_requirements(tmp_path: Path) -> None:
    checkout = tmp_path / "verl"
    checkout.mkdir()
    (checkout / "setup.py").write_text("")
    (tmp_path / "requirements.txt").write_text("six")
    found = project(workspace=tmp_path, framework_src=checkout)
    assert found.editable == ("/framework/verl",)
    assert found.described == "requirements.txt, verl (editable)"


def test_a_checkout_that_is_no_project_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="neither a pyproject"):
        find_user_project(load_settings(dict(workspace=tmp_path, framework_src=tmp_path), environ={}))


def test_an_edit_of_the_source_keeps_the_layer_and_one_of_the_project_does_not(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "mine.py").write_text("x = 1")
    key = digest(project(workspace=tmp_path).counted)
    (tmp_path / "mine.py").write_text("x = 2")
    assert digest(project(workspace=tmp_path).counted) == key
    (tmp_path / "pyproject.toml").write_text(PROJECT + 'dependencies = ["six"]\n')
    assert digest(project(workspace=tmp_path).counted) != key


def test_data_weights_hidden_folders_and_virtual_environments_stay_out(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    for name in (
        "mine/__init__.py",
        "weights.safetensors",
        ".git/config.py",
        "venv/pyvenv.cfg",
        "venv/lib/x.py",
        "VERSION",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "huge.txt").write_bytes(b"x" * 600_000)
    found = project(workspace=tmp_path)
    paths = {entry.path for entry in found.uncounted if not entry.path.endswith(".keep")}
    assert paths == {"workspace/VERSION", "workspace/mine/__init__.py"}
