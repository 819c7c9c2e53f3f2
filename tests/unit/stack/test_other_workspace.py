"""A verb in the stack's containers works on the stack's workspace, so another one that is named is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.errors import BadSetting
from harness.settings import load_settings
from harness.stack import dev


@pytest.fixture
def has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The workspace of a stack that is up; another one lies beside it."""
    for name in ("mine", "other"):
        (tmp_path / name).mkdir()
    container = SimpleNamespace(service="dev", running=True)
    monkeypatch.setattr("harness.docker_engine.containers", lambda *_: [container])
    monkeypatch.setattr("harness.docker_engine.mounted_at", lambda *_: str(tmp_path / "mine"))
    return tmp_path / "mine"


def test_another_workspace_is_refused_with_both_named(has: Path) -> None:
    other = has.with_name("other")
    with pytest.raises(BadSetting) as told:
        dev.dev_container(None, load_settings(environ={"WORKSPACE": str(other)}))
    assert str(has) in told.value.what
    assert str(other) in told.value.what
    assert told.value.mend.startswith(f"make up WORKSPACE={other}")


def test_the_same_one_may_be_named_by_any_way_that_leads_there(has: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(has)
    for way in (has, tmp_path / "link", tmp_path / "other/../mine"):
        assert dev.dev_container(None, load_settings(environ={"WORKSPACE": str(way)})).service == "dev"


def test_who_names_none_means_the_stack_s(has: Path) -> None:
    assert dev.dev_container(None, load_settings(environ={})).service == "dev"


def test_an_engine_that_does_not_tell_is_believed(has: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.docker_engine.mounted_at", lambda *_: None)
    assert dev.dev_container(None, load_settings(environ={"WORKSPACE": str(has.with_name("other"))})).service == "dev"
