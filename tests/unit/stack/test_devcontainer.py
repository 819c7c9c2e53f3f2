"""What is written for editors."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BadSetting
from harness.settings import environment_names
from harness.stack.devcontainer import RENDERED, init

CLONE = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _in_the_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRYDOCK_HOME", str(CLONE))


def plain(text: str) -> Any:
    """JSON as editors read it: whole lines may be comments."""
    return json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))


def test_the_dotted_folder_leads_to_the_same_file() -> None:
    dotted = CLONE / ".devcontainer" / "devcontainer.json"
    assert dotted.read_text() == (CLONE / "devcontainer" / "devcontainer.json").read_text()
    described = plain(dotted.read_text())["dockerComposeFile"]
    assert [(dotted.parent / name).resolve() for name in described] == [CLONE / RENDERED]


def test_closing_the_editor_stops_nothing_and_opening_it_changes_nothing() -> None:
    config = plain((CLONE / "devcontainer" / "devcontainer.json").read_text())
    assert config["shutdownAction"] == "none"
    assert config["overrideCommand"] is False
    assert config["updateRemoteUserUID"] is False
    assert "features" not in config, "these come from a registry of containers, which may be out of reach"


@pytest.mark.parametrize("name", ["launch.json", "tasks.json"])
def test_launch_configurations_and_tasks_use_settings_that_exist(name: str) -> None:
    config = plain((CLONE / "examples" / ".vscode" / name).read_text())
    known = {*environment_names().values(), "RAY_DEBUG_POST_MORTEM"}
    for entry in config.get("configurations", []):
        assert set(entry.get("env", {})) <= known, entry["name"]
    inputs = {entry["id"] for entry in config.get("inputs", [])}
    assert set(re.findall(r"\$\{input:(\w+)\}", json.dumps(config))) == inputs


def test_init_writes_three_files_that_point_to_this_clone(tmp_path: Path) -> None:
    folder = tmp_path / 'my "own" agent'
    folder.mkdir()
    written = init(folder)
    assert [file.path.name for file in written] == ["devcontainer.json", "launch.json", "tasks.json"]
    assert not any(file.kept for file in written)
    config = json.loads((folder / ".devcontainer" / "devcontainer.json").read_text())
    assert config["initializeCommand"] == ["make", "-C", str(CLONE), "dev-container", f"WORKSPACE={folder}"]
    assert config["dockerComposeFile"] == [str(CLONE / RENDERED)]


def test_init_overwrites_nothing_and_twice_is_fine(tmp_path: Path) -> None:
    mine = tmp_path / ".vscode" / "launch.json"
    mine.parent.mkdir()
    mine.write_text("{}")
    assert [file.kept for file in init(tmp_path)] == [False, True, False]
    assert mine.read_text() == "{}"
    assert [file.kept for file in init(tmp_path)] == [False, True, False]


@pytest.mark.parametrize("name", ["missing", "file"])
def test_init_wants_a_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadSetting, match="is no folder"):
        init(tmp_path / name)


def test_a_file_where_a_folder_should_be_is_told(tmp_path: Path) -> None:
    (tmp_path / ".vscode").write_text("")
    with pytest.raises(BadSetting, match="can't be written"):
        init(tmp_path)
