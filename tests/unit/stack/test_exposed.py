"""A workspace that is more than a project is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.stack.exposed import warning


@pytest.mark.parametrize(
    ("workspace", "words"),
    [
        ("home/me/drydock/examples", ""),
        ("home/me/agent", ""),
        ("home/me/drydock-agents", ""),
        ("home/me/drydock", "this Drydock"),
        ("link", "this Drydock"),
        ("home/me", "your home folder"),
        ("home", "your home folder"),
        ("", "your home folder"),
    ],
)
def test_what_a_workspace_lays_open(tmp_path: Path, workspace: str, words: str) -> None:
    clone = tmp_path / "home" / "me" / "drydock"
    (clone / "examples").mkdir(parents=True)
    (tmp_path / "link").symlink_to(clone)
    said = warning(tmp_path / workspace, clone, tmp_path / "home" / "me")
    assert words in said
    assert bool(said) == bool(words)
    assert (warning(tmp_path / workspace, clone, None) == "") == (words == "")


def test_a_user_without_a_home_is_told_of_the_clone_alone(tmp_path: Path) -> None:
    assert warning(tmp_path, Path("/elsewhere"), None) == ""
