"""What is said of settings: a line each, those that somebody has set first, and whether one has any effect."""

from __future__ import annotations

import pytest

from harness.cli import main
from harness.doctor.topics.settings import decide_origins
from harness.settings import environment_names, load_settings


def test_settings_are_a_line_each_and_those_that_were_set_come_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CASE", "x")
    assert main.run(["settings"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "   # " in line]
    assert len(lines) == len(environment_names())
    position = next(number for number, line in enumerate(lines) if line.startswith("CASE=x  [environment]"))
    assert all("  [" in line for line in lines[:position])


def test_a_port_for_sharing_has_no_effect_without_sharing() -> None:
    [finding] = decide_origins(load_settings(environ={"RAY_PORT": "7000"}))
    assert "no effect without SHARE=" in finding.text
