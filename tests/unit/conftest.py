"""Unit tests start no process and leave this machine's own settings out."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import console
from harness.settings import environment_names


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in environment_names().values():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("DRYDOCK_MAKE_VARS", raising=False)
    monkeypatch.setenv("DRYDOCK_HOME", str(tmp_path))


@pytest.fixture(autouse=True)
def _answers_go_where_they_went(monkeypatch: pytest.MonkeyPatch) -> None:
    # A verb that answers with JSON sends all else to standard error from then on; the next test is another process.
    monkeypatch.setattr(console.out(), "_file", None)
