"""One stack for all scenarios of this folder that can share one: brought up once, taken down at the end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.harness import CLONE, Stack, docker, free_port, own_project

PROJECT = own_project("scenario")


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of the user's own, at a path with a space in it."""
    folder = tmp_path_factory.mktemp("a user") / "my agent"
    shutil.copytree(CLONE / "examples", folder)
    return folder


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, workspace: Path) -> Iterator[Stack]:
    """A stack that is up."""
    made = Stack(
        PROJECT,
        tmp_path_factory.mktemp("stack"),
        {"WORKSPACE": str(workspace), "PORT": str(free_port()), "DASHBOARD_PORT": str(free_port()), "THREADS": "1"},
    )
    made.run("down")
    made.run("up").ok()
    try:
        yield made
    finally:
        made.run("down").ok()
        left = docker("ps", "-aq", "--filter", f"label=com.docker.compose.project={PROJECT}")
        assert not left, "down left containers behind"


@pytest.fixture
def up(stack: Stack) -> Stack:
    """The same, healed where the test before left it broken."""
    stack.run("up").ok()
    return stack
