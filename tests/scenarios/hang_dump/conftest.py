"""Programs that hang, ended whatever a test does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hanging import Job
from tests.support.torch_python import torch_python


@pytest.fixture(scope="session")
def torch() -> str:
    """An interpreter that has torch."""
    return torch_python()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    """Processes without torch."""
    job = Job(tmp_path / "job")
    yield job
    job.end()


@pytest.fixture
def ranks(tmp_path: Path, torch: str) -> Iterator[Job]:
    """Ranks with torch."""
    job = Job(tmp_path / "job", torch)
    yield job
    job.end()


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Where results go."""
    return tmp_path / "runs"
