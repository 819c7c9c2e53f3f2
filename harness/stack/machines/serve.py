"""``python -m harness.stack.machines.serve ADDRESS PORT DASHBOARD-URL``: the head's meeting place, on its own port.

    /facts    what the head is made of, and where the inference server is
    /reach    tries ports of whoever asks, and of nobody else; answers those that are closed
    /listens  the same for the head's own ports: is it up, or is a firewall between?
    /nodes    Ray's list of nodes

Everybody has to prove that they know the token (meeting.py).
"""

from __future__ import annotations

import hmac
import json
import os
import socket
import sys
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from harness.stack.machines.meeting import NONCE, PROOF, own_facts, proof, read_secret

TRY_SECONDS = 2.0
MOST_PORTS = 32
MOST_BYTES = 1 << 16


class Place(BaseHTTPRequestHandler):
    """One question."""

    timeout = 10
    token = ""
    dashboard = ""

    def do_POST(self) -> None:
        """Answer those who know the token."""
        try:
            length = int(self.headers.get("Content-Length") or 0)
        except ValueError:
            length = -1
        if not 0 <= length <= MOST_BYTES:
            self.send_error(413)
            return
        text = self.rfile.read(length).decode("utf-8", "replace")
        nonce = self.headers.get(NONCE, "")
        if not hmac.compare_digest(
            self.headers.get(PROOF, "").encode(), proof(self.token, self.path, nonce, text).encode()
        ):
            self.send_error(401)
            return
        try:
            answer = self._answer(json.loads(text))
        except (ValueError, TypeError, KeyError):
            self.send_error(400)
            return
        except OSError as error:
            answer = {"error": str(error)}
        if answer is None:
            self.send_error(404)
            return
        data = json.dumps(answer)
        self.send_response(200)
        self.send_header("Content-Length", str(len(data.encode())))
        self.send_header(PROOF, proof(self.token, nonce, data))
        self.end_headers()
        self.wfile.write(data.encode())

    def _answer(self, body: Any) -> Any:
        if self.path == "/facts":
            return own_facts().as_dict()
        if self.path == "/reach":
            return {"closed": closed(self.client_address[0], [int(port) for port in body["ports"]][:MOST_PORTS])}
        if self.path == "/listens":
            own = str(self.connection.getsockname()[0])
            return {"closed": closed(own, [int(port) for port in body["ports"]][:MOST_PORTS])}
        if self.path == "/nodes":
            return ray_nodes(self.dashboard, self.token)
        return None

    def log_message(self, format: str, *args: Any) -> None:
        """Who asked, in the head's log."""
        print(f"drydock: meeting: {self.client_address[0]} {format % args}", flush=True)  # noqa: T201


def closed(host: str, ports: Sequence[int]) -> list[int]:
    """Those ports of a machine at which no connection comes about."""

    def tried(port: int) -> bool:
        try:
            socket.create_connection((host, port), timeout=TRY_SECONDS).close()
        except OSError:
            return False
        return True

    if not ports:
        return []
    with ThreadPoolExecutor(max_workers=len(ports)) as pool:
        return [port for port, is_open in zip(ports, pool.map(tried, ports), strict=True) if not is_open]


def ray_nodes(dashboard: str, token: str) -> list[dict[str, Any]]:
    """Address, host name and state of every node that this head knows."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(f"{dashboard}/nodes?view=summary", headers={"Authorization": f"Bearer {token}"})
    with opener.open(request, timeout=8) as answer:
        summary = json.load(answer)["data"]["summary"]
    return [
        {"ip": one.get("ip"), "host": one.get("hostname"), "state": one.get("raylet", {}).get("state")}
        for one in summary
    ]


class Server(ThreadingHTTPServer):
    """Its threads end with it."""

    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """A node that has stopped waiting (it asks again) is no error of the head's; its log isn't for tracebacks."""
        kind, error, _ = sys.exc_info()
        print(f"drydock: meeting: {client_address[0]}: {getattr(kind, '__name__', kind)}: {error}", flush=True)  # noqa: T201


def main() -> None:
    """Serve until a signal."""
    address, port, Place.dashboard = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    Place.token = read_secret(os.environ.get("RAY_AUTH_TOKEN_PATH", "/run/secrets/ray_token"))
    if not Place.token:
        sys.exit("drydock: a shared cluster needs a token")
    Server((address, port), Place).serve_forever()


if __name__ == "__main__":
    main()
