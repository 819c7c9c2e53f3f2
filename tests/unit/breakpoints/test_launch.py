"""launch.json: our entries come and go, everything else stays as it was to the letter."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from harness.breakpoints.launch import entry, filled, update, updated
from harness.breakpoints.model import Paused, Worker
from harness.breakpoints.show import attachable
from harness.errors import LaunchFileUnreadable

OURS = [{"name": "Drydock: attach to session 1", "type": "debugpy"}, {"name": "Drydock: attach to session 2"}]
THEIRS = """{
  // my own
  "version": "0.2.0",
  "configurations": [
    { "name": "a \\"}\\"" /* } ] */ },
    { "name": "b", "x": [1, {"y": 2}] }  // last
  ],
  "compounds": [{"configurations": []}]
}
"""


def plain(text: str) -> dict[str, list[dict[str, str]]]:
    """The same without comments."""
    found: dict[str, list[dict[str, str]]] = json.loads(re.sub(r"//[^\n]*|/\*.*?\*/", "", text))
    return found


@pytest.mark.parametrize("text", [THEIRS, "", '{"configurations": []}', '{"configurations": [{"name": "x"}]}'])
def test_ours_are_added_replaced_and_taken_away(text: str) -> None:
    before = plain(text)["configurations"] if text else []
    both = updated(text, OURS)
    assert plain(both)["configurations"] == [*before, *OURS]
    assert updated(both, OURS) == both
    assert plain(updated(both, OURS[:1]))["configurations"] == [*before, OURS[0]]
    assert plain(updated(both, []))["configurations"] == before
    if before:
        assert updated(both, []) == text


def test_ours_between_theirs() -> None:
    text = '{"configurations": [\n  {"name": "a"},\n  {"name": "Drydock: attach to session 9"},\n  {"name": "b"}\n]}'
    assert [part["name"] for part in plain(updated(text, OURS[:1]))["configurations"]] == ["a", "b", OURS[0]["name"]]


@pytest.mark.parametrize("text", ["{", "[]", '{"configurations": [', "nonsense"])
def test_a_file_that_is_no_such_json_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "launch.json"
    path.write_text(text)
    with pytest.raises(LaunchFileUnreadable):
        update(path, OURS)
    assert path.read_text() == text
    assert list(tmp_path.iterdir()) == [path]


def test_an_entry_says_where_to_attach() -> None:
    worker = Worker("192.0.2.7", 5, debugger_port=21007, task="Reward.compute", status={"rank": 3})
    made = entry(Paused(4, worker), remote_root="/workspace")
    assert made["name"] == "Drydock: attach to session 4, Reward.compute rank 3"
    assert made["connect"] == {"host": "192.0.2.7", "port": 21007}
    assert made["pathMappings"] == [{"localRoot": "${workspaceFolder}", "remoteRoot": "/workspace"}]


def test_a_copy_that_ray_made_of_the_working_dir_is_mapped_to_the_workspace() -> None:
    file = "/tmp/ray/session_1/runtime_resources/working_dir_files/_ray_pkg_1f/rewards/reward.py"
    made = entry(Paused(4, Worker("192.0.2.7", 9), file=file), remote_root="/workspace")
    roots = [mapping["remoteRoot"] for mapping in made["pathMappings"]]
    assert roots == [file.removesuffix("/rewards/reward.py"), "/workspace"]


def test_a_file_that_no_editor_can_open_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    for file, told in (("/workspace/reward.py", False), ("/opt/outside.py", True)):
        line = Paused(4, Worker("192.0.2.7", 9, debugger_port=21007), file=file)
        attachable({**line.as_dict(), "entries": [entry(line, remote_root="/workspace")]}, Path("launch.json"))
        captured = capsys.readouterr()
        assert ("outside the workspace" in captured.out + captured.err) == told


@pytest.mark.parametrize("container", ["1", ""])
def test_a_file_that_may_not_be_written_is_told_with_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, container: str
) -> None:
    path = tmp_path / ".vscode" / "launch.json"
    path.parent.mkdir()
    path.write_text(THEIRS)

    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("harness.breakpoints.launch.write_whole", refused)
    monkeypatch.setenv("DRYDOCK_IN_CONTAINER", container)
    with pytest.raises(LaunchFileUnreadable, match=rf"belongs to .*uid {path.stat().st_uid}") as caught:
        update(path, OURS, again="make attach SESSION=1")
    assert ("on the machine: make attach SESSION=1" in caught.value.mend) == bool(container)
    assert path.read_text() == THEIRS


def test_the_samples_own_entries_are_filled_in_once() -> None:
    template = '{"configurations": [{"name": "Debug my agent"}]}'
    assert filled("", template) == template
    assert filled(THEIRS, template) == THEIRS
    # What `make attach` has written before anybody opened an editor.
    only_ours = updated("", OURS[:1])
    names = [part["name"] for part in plain(filled(only_ours, template))["configurations"]]
    assert names == ["Debug my agent", OURS[0]["name"]]
    assert filled(filled(only_ours, template), template) == filled(only_ours, template)
