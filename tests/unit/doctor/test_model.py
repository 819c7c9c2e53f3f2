"""What MODEL= needs, from the settings and the folders of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.doctor.model import gather_model
from harness.doctor.setup import make_context
from harness.models import catalogue
from harness.models.packages import package_file
from harness.settings import load_settings


def test_the_embedded_model_is_looked_for_in_our_cache(tmp_path: Path) -> None:
    settings = load_settings(environ={"DRYDOCK_CACHE": str(tmp_path)})
    model = gather_model(settings)
    assert (model.name, model.source, model.here) == ("smollm2-135m", "package", False)
    package = catalogue.load()["smollm2-135m"].package
    assert package is not None
    file = package_file(tmp_path / "models" / "smollm2-135m" / package.version, package)
    file.parent.mkdir(parents=True)
    with file.open("wb") as whole:
        whole.truncate(package.size)
    assert gather_model(settings).here


def test_a_model_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    model = gather_model(load_settings(environ={"MODEL": "qwen2.5-0.5b", "DRYDOCK_CACHE": str(tmp_path)}))
    assert (model.source, model.here) == ("hub", False)
    assert model.size > 0


def test_a_model_that_is_none_is_kept_as_its_error() -> None:
    assert "no-such" in str(gather_model(load_settings(environ={"MODEL": "no-such-model"})).problem)


def test_a_bad_setting_is_no_reason_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", "eighty")
    monkeypatch.setenv("TOPIC", "disk")
    context = make_context({"json_output": True, "topic": None})
    assert context.problem is not None
    assert "PORT=eighty" in context.problem.what
    assert context.settings.topic == "disk"
    assert context.settings.json_output
    assert context.settings.port == 8080


def test_a_user_without_a_home_folder_gets_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", _no_such_user)
    context = make_context({})
    assert context.problem is not None
    assert "set HOME" in context.problem.what
    assert context.settings.cache.is_absolute()


def _no_such_user(uid: int) -> None:
    raise KeyError(uid)
