"""What is written for editors."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.breakpoints import relay
from harness.breakpoints.launch import updated
from harness.errors import BadSetting, StackOccupied
from harness.settings import Settings, environment_names
from harness.stack import devcontainer, occupied
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
    config = plain((CLONE / "devcontainer" / "vscode" / name).read_text())
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


def test_what_would_have_been_written_lies_where_it_can_be_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone, folder = tmp_path / "clone", tmp_path / "agent"
    shutil.copytree(CLONE / "devcontainer", clone / "devcontainer")
    monkeypatch.setenv("DRYDOCK_HOME", str(clone))
    own = folder / ".devcontainer" / "devcontainer.json"
    own.parent.mkdir(parents=True)
    own.write_text('{"image": "mine"}')
    [kept] = [file for file in init(folder) if file.kept]
    assert kept.path == own
    assert kept.ours is not None
    assert kept.ours.is_absolute()
    assert f"WORKSPACE={folder}" in json.loads(kept.ours.read_text())["initializeCommand"]


def test_what_is_suggested_is_what_lies_in_the_folder(tmp_path: Path) -> None:
    """Neither the sample's agent, which isn't there, nor anything that can't be: a word that says what is meant."""
    init(tmp_path)
    for name in ("launch.json", "tasks.json"):
        inputs = {one["id"]: one for one in plain((tmp_path / ".vscode" / name).read_text())["inputs"]}
        assert inputs["agent"]["default"] == devcontainer.NO_AGENT
        assert inputs["data"]["default"] == devcontainer.NO_DATA
    shutil.rmtree(tmp_path / ".vscode")
    init(tmp_path, agent='a "b".py:Mine', data="x.jsonl")
    inputs = {one["id"]: one for one in plain((tmp_path / ".vscode" / "launch.json").read_text())["inputs"]}
    assert (inputs["agent"]["default"], inputs["data"]["default"]) == ('a "b".py:Mine', "x.jsonl")


def test_another_stack_than_the_default_is_opened_again(tmp_path: Path) -> None:
    init(tmp_path, stack={"PROJECT": "mine", "PORT": "9000"})
    config = json.loads((tmp_path / ".devcontainer" / "devcontainer.json").read_text())
    assert config["initializeCommand"][-2:] == ["PROJECT=mine", "PORT=9000"]
    # Two stacks, two files: else one that is opened would be entered through the other's description.
    assert config["dockerComposeFile"] == [str(CLONE / ".drydock" / "mine" / devcontainer.OWN_RENDERED)]


def test_every_task_that_an_entry_begins_with_is_there() -> None:
    folder = CLONE / "devcontainer" / "vscode"
    launch, tasks = (plain((folder / f"{name}.json").read_text()) for name in ("launch", "tasks"))
    labels = {task["label"] for task in tasks["tasks"]}
    entries = [entry for entry in launch["configurations"] if "preLaunchTask" in entry]
    assert entries
    for entry in entries:
        assert entry["preLaunchTask"] in labels
        assert entry["connect"] == {"host": "127.0.0.1", "port": relay.PORT}


def test_entries_of_paused_workers_are_not_handed_on(tmp_path: Path) -> None:
    """`make attach` writes them into the sample's own file."""
    attach = {"name": "Drydock: attach to session 1, RolloutWorker.generate", "type": "debugpy", "request": "attach"}

    def edited(text: str) -> str:
        return updated(updated(text, [attach]), [])

    init(tmp_path, edited)
    names = [entry["name"] for entry in plain((tmp_path / ".vscode" / "launch.json").read_text())["configurations"]]
    assert attach["name"] not in names
    assert len(names) == len(plain((CLONE / "devcontainer" / "vscode" / "launch.json").read_text())["configurations"])


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize(
    ("shown", "asked", "again"),
    [
        ("mine", None, False),  # the clone itself is opened: whatever is there is joined
        ("mine", "mine", False),
        ("examples", "mine", True),  # the default workspace stands in no record of the last `up`
        ("mine", "other", True),
        (None, "mine", True),
    ],
)
def test_a_folder_that_is_opened_becomes_the_workspace(
    shown: str | None, asked: str | None, again: bool, busy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mine", "other", "examples"):
        (tmp_path / name).mkdir()
    brought_up: list[Path] = []

    class Plan:
        def __init__(self, settings: Settings) -> None:
            self.settings, self.expected = settings, None

    class Result:
        def __init__(self, settings: Settings) -> None:
            self.plan, self.changed = Plan(settings), ("dev",)

    class Rendered:
        def run(self, *_: str) -> str:
            return "services: {}"

    def up(settings: Settings) -> Result:
        brought_up.append(settings.workspace)
        return Result(settings)

    monkeypatch.setenv("DRYDOCK_HOME", str(tmp_path))
    monkeypatch.delenv("WORKSPACE", raising=False)
    monkeypatch.setattr("harness.stack.devcontainer.guard.docker_fit", lambda: None)
    monkeypatch.setattr(devcontainer, "recall", lambda settings: (Plan(settings), ()))
    monkeypatch.setattr(devcontainer, "fine", lambda _: True)
    monkeypatch.setattr("harness.stack.devcontainer.observe.look", lambda *_: [])
    monkeypatch.setattr(devcontainer, "asked_before", lambda _: {})
    monkeypatch.setattr(devcontainer, "up", up)
    monkeypatch.setattr("harness.stack.devcontainer.rendering.compose_for", lambda _: Rendered())
    monkeypatch.setattr(
        "harness.stack.devcontainer.docker_engine.mounted_at",
        lambda *_: None if shown is None else str(tmp_path / shown),
    )
    running = [occupied.Running("dev", 7, "python train.py")]
    monkeypatch.setattr("harness.stack.devcontainer.occupied.look", lambda *_: running if busy else [])
    flags: dict[str, Any] = {} if asked is None else {"workspace": str(tmp_path / asked)}
    if busy and shown is not None and again:
        # What runs ends only when somebody says so.
        with pytest.raises(StackOccupied, match=r"dev: python train\.py") as caught:
            devcontainer.prepare(flags, lambda own, _: own)
        assert "DRYDOCK_YES=1" in caught.value.mend
        assert f"WORKSPACE={tmp_path / str(asked)}" in caught.value.mend
        assert not brought_up
        flags["yes"] = True
    done = devcontainer.prepare(flags, lambda own, _: own)
    assert bool(brought_up) is again
    if again:
        assert asked is not None
        assert (brought_up, done.workspace) == ([tmp_path / asked], tmp_path / asked)
