"""What `up` can't do, it says in a sentence, with what follows and the command that mends it; and it leaves nothing."""

from __future__ import annotations

import http.server
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.harness import Ended, Stack, docker, free_port

pytestmark = pytest.mark.docker


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Stack]:
    """A project of which nothing exists, and of which nothing may exist afterwards."""
    stack = Stack("drydock-bad", tmp_path, {"PORT": str(free_port()), "DASHBOARD_PORT": str(free_port())})
    yield stack
    assert stack.ids() == {}
    assert not docker("volume", "ls", "-q", "--filter", "label=com.docker.compose.project=drydock-bad")
    assert not docker("network", "ls", "-q", "--filter", "label=com.docker.compose.project=drydock-bad")


def explained(ended: Ended, code: int, *words: str) -> None:
    """The error has its three parts and no traceback."""
    assert ended.code == code, ended
    assert "Traceback" not in ended.stderr, ended
    assert "✗" in ended.stderr, ended
    assert "→" in ended.stderr, ended
    for word in words:
        assert word in ended.stderr, ended


def test_an_unknown_alias(fresh: Stack) -> None:
    explained(fresh.run("up", MODEL="qwen2.5-0.5"), 2, "qwen2.5-0.5", "qwen2.5-0.5b")


def test_a_folder_without_a_model(fresh: Stack, tmp_path: Path) -> None:
    explained(fresh.run("up", MODEL=str(tmp_path)), 2, str(tmp_path))


def test_a_workspace_that_is_not_there(fresh: Stack) -> None:
    explained(fresh.run("up", WORKSPACE="/nowhere"), 2, "WORKSPACE=/nowhere")


def test_an_external_server_without_its_address(fresh: Stack) -> None:
    explained(fresh.run("up", ENGINE="external"), 2, "OPENAI_BASE_URL")


def test_an_engine_that_does_not_exist(fresh: Stack) -> None:
    explained(fresh.run("up", ENGINE="tensorrt"), 2, "ENGINE=tensorrt (from environment)")


def test_a_port_that_somebody_else_has(fresh: Stack) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        taken = f"PORT={port} is taken by process {os.getpid()} ("
        explained(fresh.run("up", PORT=str(port)), 3, taken, "make up PORT=")
        server.shutdown()


def test_the_same_port_twice(fresh: Stack) -> None:
    explained(fresh.run("up", PORT="18080", DASHBOARD_PORT="18080"), 2, "the same")


@pytest.mark.parametrize("verb", ["up", "down", "status", "logs", "shell", "restart-ray", "clean"])
def test_docker_is_not_running(fresh: Stack, verb: str) -> None:
    explained(fresh.run(verb, DOCKER_HOST="unix:///nonexistent/docker.sock"), 3, "isn't running", "make docker")


def test_there_is_no_docker_program(fresh: Stack, tmp_path: Path) -> None:
    explained(fresh.run("up", PATH=str(tmp_path)), 3, "no `docker`", "make docker")


@pytest.mark.parametrize("verb", ["logs", "shell", "restart-ray", "check"])
def test_the_stack_is_not_up(fresh: Stack, verb: str) -> None:
    explained(fresh.run(verb), 1, "isn't up", "make up")


def test_run_without_a_command(fresh: Stack) -> None:
    explained(fresh.run("run"), 2, "no command", "make run CMD=")


def test_json_errors_are_one_document(fresh: Stack) -> None:
    ended = fresh.run("up", "--json", MODEL="no such model!")
    assert ended.json()["error"] == "UnknownModel"
    assert ended.code == 2


def test_a_server_that_can_not_start_shows_its_log_unasked(fresh: Stack) -> None:
    try:
        ended = fresh.run("up", ENGINE_ARGS="--no-such-flag 1")
        explained(ended, 1, "inference", "no-such-flag")
        assert "make up ENGINE_ARGS=" in ended.stderr
    finally:
        fresh.run("down").ok()
        docker("volume", "rm", f"{fresh.project}_samplers")  # `down` keeps volumes
