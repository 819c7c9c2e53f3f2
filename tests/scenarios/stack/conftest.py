"""Two stacks for the scenarios of this folder that can share one: brought up once, taken down at the end.

``stack`` has the defaults; ``own_stack`` is that of a user who brings everything along.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.stack import own
from tests.support.harness import CLONE, Stack, docker, free_port, own_project
from tests.support.model_process import ModelProcess

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
    yield from while_up(made)


def while_up(made: Stack) -> Iterator[Stack]:
    """A stack from its `up` to its `down`, after which nothing of it is there."""
    ours = ["--filter", f"label=com.docker.compose.project={made.project}"]
    made.run("down")
    made.run("up").ok()
    try:
        yield made
    finally:
        made.run("down").ok()
        assert not docker("ps", "-aq", *ours), "down left containers behind"
        # `down` keeps them.
        for volume in docker("volume", "ls", "-q", *ours).split():
            docker("volume", "rm", volume)


@pytest.fixture
def up(stack: Stack) -> Stack:
    """The same, healed where the test before left it broken."""
    stack.run("up").ok()
    return stack


@pytest.fixture(scope="session")
def own_server() -> Iterator[ModelProcess]:
    """A server that already runs on this machine's loopback."""
    server = ModelProcess(text="Paris, says the server on this machine.")
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def own_workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of another user's, with a requirement, at a path that wants quoting."""
    return own.make_workspace(tmp_path_factory.mktemp("own") / 'a user\'s "own" $HOME project')


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of a framework that the user works on."""
    return own.make_checkout(tmp_path_factory.mktemp("src") / "tiny framework", "tinyframework")


@pytest.fixture(scope="session")
def own_stack_once(
    tmp_path_factory: pytest.TempPathFactory, own_workspace: Path, checkout: Path, own_server: ModelProcess
) -> Iterator[Stack]:
    """A stack without an inference server, with a worker, and with what the user brought along."""
    settings = {
        "ENGINE": "external",
        "OPENAI_BASE_URL": own_server.url,
        "OPENAI_API_KEY": own_server.key,
        "WORKSPACE": str(own_workspace),
        "FRAMEWORK_SRC": str(checkout),
        "WORKERS": "1",
        "PORT": str(free_port()),
        "DASHBOARD_PORT": str(free_port()),
    }
    yield from while_up(Stack(own_project("own"), tmp_path_factory.mktemp("own-stack"), settings))


@pytest.fixture
def own_stack(own_stack_once: Stack) -> Stack:
    """The same, brought back where the test before left it otherwise."""
    own_stack_once.run("up").ok()
    return own_stack_once
