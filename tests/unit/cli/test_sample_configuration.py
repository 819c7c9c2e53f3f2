"""`make check STAGE=1-4` works as it stands: the sample agent has its configuration, as it has its data."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.check import _with_sample
from harness.settings import load_settings

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@pytest.mark.parametrize(
    ("given", "stages", "config"),
    [
        ({}, (1, 2, 3, 4), "training/areal.yaml"),
        ({}, (1, 2, 3), ""),
        ({"config": "mine.yaml"}, (4,), "mine.yaml"),
        # Whose agent is another one has another training as well.
        ({"agent": "mine.py:Agent"}, (4,), ""),
        ({"workspace": "tests"}, (4,), ""),
    ],
)
def test_the_sample_configuration_goes_with_the_sample_agent(
    given: dict[str, str], stages: tuple[int, ...], config: str
) -> None:
    settings = load_settings({"workspace": str(EXAMPLES), **given}, environ={})
    assert _with_sample(settings, stages).config == config
