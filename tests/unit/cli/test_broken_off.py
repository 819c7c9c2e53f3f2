"""A request to Docker that breaks off becomes an error of ours, whichever verb made it."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import click
import pytest

from harness import docker_engine
from harness.cli import clean, main
from harness.errors import DockerUnreachable

ANSWERS = {"/_ping": b'"OK"', "/version": b'{"ApiVersion": "1.41", "Version": "20.10.24"}'}


class _Daemon(socketserver.ThreadingUnixStreamServer):
    """Says who it is, and then nothing more: it keeps silent until ``over``, or hangs up."""

    daemon_threads = True
    block_on_close = False
    goes_away = False
    over: threading.Event


class _Answers(BaseHTTPRequestHandler):
    server: _Daemon

    def do_GET(self) -> None:
        body = next((body for end, body in ANSWERS.items() if self.path.endswith(end)), None)
        if body is None:
            if not self.server.goes_away:
                self.server.over.wait()
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def daemon(folder: Path, *, goes_away: bool) -> Iterator[str]:
    """Run one on a socket in ``folder``; yields its address."""
    with _Daemon(str(folder / "docker.sock"), _Answers) as server:
        server.goes_away = goes_away
        server.over = threading.Event()
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"unix://{folder / 'docker.sock'}"
        server.over.set()
        server.shutdown()


@pytest.mark.parametrize(("goes_away", "said"), [(False, "no answer in time"), (True, "went away")])
def test_a_verb_ends_with_a_sentence_and_no_traceback(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    goes_away: bool,
    said: str,
) -> None:
    @click.command("clean")
    @click.option("--json", "as_json", is_flag=True)
    def verb(as_json: bool) -> None:
        docker_engine.connect(timeout=1).containers.list()

    monkeypatch.setattr(clean, "command", verb)
    with daemon(tmp_path, goes_away=goes_away) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        code = main.run(["clean", "--json"])
    printed = capsys.readouterr()
    assert code == DockerUnreachable.exit_code == 3
    assert said in json.dumps(json.loads(printed.out))
    assert "Drydock itself failed" not in printed.err


def test_other_errors_are_none_of_its_business() -> None:
    assert docker_engine.as_unreachable(ValueError("x")) is None
