"""What `up` says of a server that it did not start."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from harness.settings import load_settings
from harness.stack import external
from harness.stack.plan import Plan, make_plan


class Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        known = self.headers.get("authorization") == "Bearer right"
        self.send_response(200 if known else 401)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server.server_port
        server.shutdown()


def plan(folder: Path, port: int, key: str) -> Plan:
    asked = {
        "ENGINE": "external",
        "WORKSPACE": str(folder),
        "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1",
        "OPENAI_API_KEY": key,
    }
    return make_plan(load_settings(environ=asked))


def test_one_that_answers_is_no_matter(tmp_path: Path, port: int) -> None:
    assert external.silence(plan(tmp_path, port, "right")) == ""


def test_a_key_that_it_refuses_is_told(tmp_path: Path, port: int) -> None:
    assert "OPENAI_API_KEY" in external.silence(plan(tmp_path, port, "wrong"))


def test_one_that_is_not_there_is_told_with_its_address(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        free = nobody.getsockname()[1]
    assert str(free) in external.silence(plan(tmp_path, free, "right"))
