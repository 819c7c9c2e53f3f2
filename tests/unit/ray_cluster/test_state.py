"""The dashboard's state API, and what else may answer there."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from harness.hang.ways import ray_nodes
from harness.processes.sampling.model import SampleRequest
from harness.ray_cluster import Dashboard, RayUnreachable

Answer = Callable[[str, dict[str, str]], "tuple[int, bytes]"]


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], str]]:
    """Starts a server that answers by a function of path and headers; gives its address."""
    servers: list[http.server.ThreadingHTTPServer] = []

    def start(answer: Answer) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                code, body = answer(self.path, dict(self.headers))
                self.send_response(code)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: Any) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def wrapped(rows: list[dict[str, Any]]) -> bytes:
    return json.dumps({"result": True, "msg": "", "data": {"result": {"total": len(rows), "result": rows}}}).encode()


def test_rows_come_by_token_and_filter(serve: Callable[[Answer], str]) -> None:
    asked: list[Any] = []

    def answer(path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        asked.append((urlsplit(path).path, parse_qs(urlsplit(path).query), headers.get("Authorization")))
        return 200, wrapped([{"worker_id": "a", "num_paused_threads": 1}])

    found = Dashboard(serve(answer), "secret").list("workers", limit=7, num_paused_threads=("!=", "0"))
    assert found == [{"worker_id": "a", "num_paused_threads": 1}]
    path, query, key = asked[0]
    assert (path, key) == ("/api/v0/workers", "Bearer secret")
    assert query == {
        "detail": ["1"], "limit": ["7"],
        "filter_keys": ["num_paused_threads"], "filter_predicates": ["!="], "filter_values": ["0"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("code", "body", "reason"),
    [
        (401, b"", "another token"),
        (500, b"oops", "HTTP 500"),
        (200, b"<html>", "no dashboard"),
        (200, b"[]", "no answer on actors"),
        (200, b'{"result": false, "msg": "too many", "data": {}}', "too many"),
    ],
)
def test_what_is_no_answer_says_why(serve: Callable[[Answer], str], code: int, body: bytes, reason: str) -> None:
    with pytest.raises(RayUnreachable) as caught:
        Dashboard(serve(lambda *_: (code, body))).list("actors")
    assert reason in caught.value.reason


def test_a_port_where_nobody_listens_is_no_dashboard() -> None:
    with pytest.raises(RayUnreachable, match="refused"):
        Dashboard("http://127.0.0.1:1").list("nodes")


def test_a_dump_has_rays_tables_as_files(serve: Callable[[Answer], str]) -> None:
    url = serve(lambda path, _: (200, wrapped([{"table": urlsplit(path).path.rpartition("/")[2]}])))
    answer = ray_nodes.state(url, "").sample(SampleRequest(), 0)
    assert sorted(answer.dumps) == ["ray-actors.json", "ray-nodes.json", "ray-placement-groups.json", "ray-tasks.json"]
    assert json.loads(answer.dumps["ray-tasks.json"]) == [{"table": "tasks"}]


def test_a_dashboard_that_does_not_answer_is_noted_and_keeps_nobody_from_being_missed() -> None:
    answer = ray_nodes.state("http://127.0.0.1:1", "").sample(SampleRequest(), 0)
    assert answer.dumps == {}
    assert "Ray's view is incomplete" in answer.notes[0]
