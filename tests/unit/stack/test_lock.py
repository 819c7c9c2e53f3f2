"""The stack's lock, where the clone's folder is not what it should be."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from harness.errors import Busy, EnvironmentUnfit, NoSpace
from harness.settings import load_settings
from harness.stack import guard


def test_a_file_in_the_folders_place() -> None:
    settings = load_settings(environ={})
    settings.state_dir.parent.mkdir()
    settings.state_dir.write_text("")
    with pytest.raises(EnvironmentUnfit, match="can't be written"), guard.only_one(settings):
        pass


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, NoSpace), (errno.EROFS, EnvironmentUnfit)])
def test_no_folder_can_be_made(monkeypatch: pytest.MonkeyPatch, number: int, kind: type[EnvironmentUnfit]) -> None:
    def mkdir(path: Path, **_: object) -> None:
        raise OSError(number, "no", str(path))

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with pytest.raises(EnvironmentUnfit) as caught, guard.only_one(load_settings(environ={})):
        pass
    assert type(caught.value) is kind
    assert caught.value.mend


def test_a_full_disk_does_not_stop_what_frees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def write_text(path: Path, *_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_text", write_text)
    settings = load_settings(environ={})
    with guard.only_one(settings), pytest.raises(Busy), guard.only_one(settings):
        pass


def test_what_goes_wrong_while_it_is_held_is_not_blamed_on_it() -> None:
    settings = load_settings(environ={})
    with pytest.raises(PermissionError, match="weights"), guard.only_one(settings):
        raise PermissionError("weights")
    with guard.only_one(settings):
        pass
