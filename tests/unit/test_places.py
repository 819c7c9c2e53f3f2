"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.places import TYPED, shown, write_whole


def test_a_file_and_its_folder_are_made_and_nothing_lies_beside(tmp_path: Path) -> None:
    write_whole(tmp_path / "new" / "file", "one")
    write_whole(tmp_path / "new" / "file", "two")
    assert [(path.name, path.read_text()) for path in (tmp_path / "new").iterdir()] == [("file", "two")]


def test_a_full_disk_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_whole(path, "before")

    def full(descriptor: int, mode: str, encoding: str) -> None:
        os.close(descriptor)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, "after")
    assert [(item.name, item.read_text()) for item in tmp_path.iterdir()] == [("file", "before")]


def test_a_link_that_somebody_laid_does_not_lead_the_text_elsewhere(tmp_path: Path) -> None:
    """Containers write into `runs/` too, and the name of the half-written file can be guessed."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / f".index.html.{os.getpid()}").symlink_to(victim)
    (runs / "index.html").symlink_to(victim)
    write_whole(runs / "index.html", "page")
    assert victim.read_text() == "mine"
    assert (runs / "index.html").read_text() == "page"
    assert not (runs / "index.html").is_symlink()
    assert len(list(runs.iterdir())) == 1


@pytest.mark.parametrize(
    ("path", "typed", "seen"),
    [
        ("/workspace/data/a b.jsonl", True, "my project/data/a b.jsonl"),
        ("/workspace", True, "my project"),
        ("/runs/tape", True, "runs/tape"),
        ("/workspaces/x", True, "/workspaces/x"),
        ("/opt/venv/lib/x.py", True, "/opt/venv/lib/x.py"),
        ("/workspace/data/a.jsonl", False, "/workspace/data/a.jsonl"),  # typed in the container itself
    ],
)
def test_a_path_is_shown_as_whoever_typed_finds_it(
    monkeypatch: pytest.MonkeyPatch, path: str, typed: bool, seen: str
) -> None:
    monkeypatch.setenv("WORKSPACE_SHOWN", "my project")
    monkeypatch.setenv("RUNS_SHOWN", "runs")
    monkeypatch.setenv(TYPED, "{}")
    if not typed:
        monkeypatch.delenv(TYPED)
    assert shown(Path(path)) == seen
