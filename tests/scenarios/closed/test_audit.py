"""The audit of what is locked: it asks for every package, finds what is known, and says where nobody can be asked."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.harness import CLONE, free_port

LOCK = (CLONE / "docker" / "locks" / "tools.txt").read_text()


class Advisories(http.server.ThreadingHTTPServer):
    """A server with OSV's interface that knows one vulnerability."""

    def __init__(self, vulnerable: str) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.vulnerable = vulnerable
        self.asked: list[str] = []


class Answers(http.server.BaseHTTPRequestHandler):
    server: Advisories

    def do_POST(self) -> None:
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name, version = question["package"]["name"], question["version"]
        self.server.asked.append(name)
        found = [known(name, version)] if name == self.server.vulnerable else []
        body = json.dumps({"vulns": found} if found else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        pass


def known(name: str, version: str) -> dict[str, Any]:
    ranges = [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99"}]}]
    affected = [{"package": {"name": name, "ecosystem": "PyPI"}, "ranges": ranges, "versions": [version]}]
    now = "2026-01-01T00:00:00Z"
    return {
        "id": "PYSEC-2099-1",
        "summary": "-",
        "details": "-",
        "modified": now,
        "published": now,
        "affected": affected,
    }


@contextmanager
def advisories(vulnerable: str = "") -> Iterator[Advisories]:
    with Advisories(vulnerable) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


def audit(port: int, *locks: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OSV_URL": f"http://127.0.0.1:{port}/v1/query", "NO_PROXY": "127.0.0.1"}
    return subprocess.run(
        ["scripts/audit.sh", *locks], env=environment, cwd=CLONE, capture_output=True, text=True, check=False
    )


def test_where_nobody_can_be_asked_it_says_so_and_is_no_failure() -> None:
    done = audit(free_port())
    assert done.returncode == 0
    assert done.stdout.startswith("· not audited: http://127.0.0.1")
    assert "refused" in done.stdout


@pytest.mark.slow  # installs pip-audit
def test_a_known_vulnerability_is_found() -> None:
    name = LOCK.partition("==")[0]
    with advisories() as server:
        done = audit(server.server_port, "tools")
        assert done.returncode == 0, done.stderr
        assert name in server.asked
    with advisories(name) as server:
        done = audit(server.server_port, "tools")
        assert done.returncode == 1, done.stderr
        assert "PYSEC-2099-1" in done.stdout
