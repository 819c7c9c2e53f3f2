"""Files that appear whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.places import write_whole


def test_a_file_and_its_folder_are_made_and_nothing_lies_beside(tmp_path: Path) -> None:
    write_whole(tmp_path / "new" / "file", "one")
    write_whole(tmp_path / "new" / "file", "two")
    assert [(path.name, path.read_text()) for path in (tmp_path / "new").iterdir()] == [("file", "two")]


def test_a_full_disk_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_whole(path, "before")

    def full(self: Path, text: str, encoding: str) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, "after")
    assert [(item.name, item.read_text()) for item in tmp_path.iterdir()] == [("file", "before")]
