"""Everything about models happens in a folder of its own, against a hub on loopback or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.settings import Settings, load_settings
from tests.support import tiny_model
from tests.support.hub import QWEN_GGUF_FILE, Hub

MakeSettings = Callable[..., Settings]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model in both formats: ``hf/`` and ``gguf/``; not to be changed."""
    folder = tmp_path_factory.mktemp("tiny")
    tiny_model.write_folder(folder / "hf")
    tiny_model.write_gguf(folder / "gguf" / QWEN_GGUF_FILE)
    return folder


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_ENDPOINT", "HF_TOKEN", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf-home"))
    (tmp_path / "clone").mkdir()
    monkeypatch.setenv("DRYDOCK_HOME", str(tmp_path / "clone"))


@pytest.fixture
def make(tmp_path: Path) -> MakeSettings:
    """Settings from keyword arguments, with a cache of the test's own."""

    def build(**values: object) -> Settings:
        given = {"cache": tmp_path / "cache", "workspace": tmp_path / "clone", **values}
        return load_settings(given, environ={})

    return build


@pytest.fixture
def hub(tiny: Path) -> Iterator[Hub]:
    """A hub that serves the tiny model as qwen2.5-0.5b."""
    with Hub() as running:
        running.add_qwen_from(tiny)
        yield running
