"""A model hub on loopback: the routes that ``huggingface_hub`` uses, with faults on demand.

As a program it serves the tiny model under the names and revisions of the catalogue's ``qwen2.5-0.5b``::

    python -m tests.support.hub
    ready http://127.0.0.1:43211

In a test::

    with Hub() as hub:
        hub.add("owner/name", folder, commit)
        hub.fault("cut", "model.safetensors", after=1000)
        ... HF_ENDPOINT=hub.url ...
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import tempfile
import threading
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support import tiny_model

QWEN, QWEN_COMMIT = "Qwen/Qwen2.5-0.5B-Instruct", "7ae557604adf67be50417f59c2c2f167def9a775"
QWEN_GGUF, QWEN_GGUF_COMMIT = "Qwen/Qwen2.5-0.5B-Instruct-GGUF", "9217f5db79a29953eb74d5343926648285ec7e67"
QWEN_GGUF_FILE = "qwen2.5-0.5b-instruct-q4_k_m.gguf"

# Large files are kept apart on a real hub, under their SHA-256.
_LARGE = (".safetensors", ".gguf", ".bin")


@dataclass
class Repo:
    """One repository: a folder a commit; the last one added is ``main``."""

    name: str
    commits: dict[str, Path] = field(default_factory=dict)
    gated: bool = False
    token: str | None = None


@dataclass
class Fault:
    """Something that goes wrong for requests whose path holds ``match``.

    ``kind`` is an HTTP status (``"500"``), ``"cut"`` (the connection breaks after so many bytes), ``"stall"``
    (nothing more comes after so many bytes, until the hub is closed) or ``"garbage"`` (a page that is no answer).
    """

    kind: str
    match: str
    times: int
    after: int
    skip: int


@dataclass(frozen=True)
class Request:
    """A request that the hub got."""

    method: str
    path: str
    range: str | None
    authorization: str | None


class Hub:
    """A running hub; a context manager that stops it.

    Args:
        elsewhere: redirect large files to another host name, as the real hub does to its storage.
    """

    def __init__(self, *, elsewhere: bool = False) -> None:
        self.repos: dict[str, Repo] = {}
        self.requests: list[Request] = []
        self.elsewhere = elsewhere
        self.ignore_ranges = False
        self.stalled = threading.Event()
        self.closing = threading.Event()
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        hub = self

        class Handler(_Handler):
            owner = hub

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """What ``HF_ENDPOINT`` is to be."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Hub:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def add(self, name: str, folder: Path, commit: str, *, gated: bool = False, token: str | None = None) -> Repo:
        """Serve a folder as a commit of a repository; with a token, only to those who show it."""
        repo = self.repos.setdefault(name.lower(), Repo(name))
        repo.commits[commit] = folder
        repo.gated, repo.token = gated, token
        return repo

    def add_qwen(self, scratch: Path) -> None:
        """Make the tiny model and serve it as the catalogue's qwen2.5-0.5b, in both formats."""
        tiny_model.write_folder(scratch / "hf")
        tiny_model.write_gguf(scratch / "gguf" / QWEN_GGUF_FILE)
        self.add_qwen_from(scratch)

    def add_qwen_from(self, made: Path) -> None:
        """The same with a tiny model that is there already, in ``hf/`` and ``gguf/``."""
        self.add(QWEN, made / "hf", QWEN_COMMIT)
        self.add(QWEN_GGUF, made / "gguf", QWEN_GGUF_COMMIT)

    def fault(self, kind: str, match: str = "", *, times: int = 1_000_000, after: int = 0, skip: int = 0) -> None:
        """Make requests whose path holds ``match`` go wrong, after so many that go well; see ``Fault``."""
        with self._lock:
            self._faults.append(Fault(kind, match, times, after, skip))

    def mend(self) -> None:
        """Take all faults back."""
        with self._lock:
            self._faults.clear()

    def served(self, match: str, method: str = "GET") -> list[Request]:
        """The requests so far of one method whose path holds a text."""
        return [request for request in self.requests if request.method == method and match in request.path]

    def take_fault(self, path: str, kinds: Callable[[str], bool]) -> Fault | None:
        """The fault that meets this request, if any; used up once."""
        with self._lock:
            for fault in self._faults:
                if fault.times <= 0 or fault.match not in path or not kinds(fault.kind):
                    continue
                if fault.skip > 0:
                    fault.skip -= 1
                    continue
                fault.times -= 1
                return fault
        return None


class _Handler(BaseHTTPRequestHandler):
    owner: Hub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing; ``Hub.requests`` keeps what came."""

    def _answer(self) -> None:
        hub = self.owner
        url = urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(url.path)
        query = urllib.parse.parse_qs(url.query)
        headers = self.headers
        hub.requests.append(Request(self.command, path, headers.get("Range"), headers.get("Authorization")))
        if fault := hub.take_fault(path, lambda kind: kind.isdigit()):
            return self._error(int(fault.kind), "", f"fault on demand {fault.kind}")
        if hub.take_fault(path, lambda kind: kind == "garbage"):
            return self._send(200, b"<html>Please log in to the hotel's network</html>", {"Content-Type": "text/html"})
        if match := re.fullmatch(r"/storage/([0-9a-f]{64})", path):
            return self._stored(match.group(1))
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+)(?:/.*)?)?", path):
            return self._api(match.group(1), match.group(2), match.group(3), "blobs" in query)
        if match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self._resolve(*match.groups())
        return self._error(404, "", "no such route")

    def _api(self, name: str, what: str | None, revision: str | None, blobs: bool) -> None:
        found = self._find(name, revision)
        if found is None:
            return None
        repo, commit, folder = found
        files = [_describe(file, file.relative_to(folder).as_posix()) for file in _files(folder)]
        if what == "tree":
            return self._json(
                [{"type": "file", "path": file["rfilename"], **_only(file, "size", "oid", "lfs")} for file in files]
            )
        keys = ("rfilename", "size", "blobId", "lfs") if blobs else ("rfilename",)
        siblings = [_only(file, *keys) for file in files]
        gated = "manual" if repo.gated else False
        return self._json({"id": repo.name, "sha": commit, "gated": gated, "siblings": siblings, "tags": []})

    def _resolve(self, name: str, revision: str, path: str) -> None:
        found = self._find(name, revision)
        if found is None:
            return None
        repo, commit, folder = found
        if repo.gated and not self._authorized(repo):
            return self._error(403 if self.headers.get("Authorization") else 401, "GatedRepo", f"{name} is gated")
        file = folder / path
        if not file.is_file():
            return self._error(404, "EntryNotFound", f"no {path}", {"X-Repo-Commit": commit})
        described = _describe(file, path)
        headers = {"X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        if "lfs" not in described:
            return self._content(file, {**headers, "ETag": f'"{described["blobId"]}"'})
        sha256 = described["lfs"]["sha256"]
        headers |= {"X-Linked-Etag": f'"{sha256}"', "X-Linked-Size": str(described["size"]), "ETag": f'"{sha256}"'}
        if self.owner.elsewhere:
            headers["Location"] = f"http://localhost:{self.owner.port}/storage/{sha256}"
            return self._send(302, b"", headers)
        return self._content(file, headers)

    def _stored(self, sha256: str) -> None:
        for repo in self.owner.repos.values():
            for folder in repo.commits.values():
                for file in _files(folder):
                    if _describe(file, file.name).get("lfs", {}).get("sha256") == sha256:
                        return self._content(file, {"ETag": f'"{sha256}"'})
        return self._error(404, "", "no such blob")

    def _find(self, name: str, revision: str | None) -> tuple[Repo, str, Path] | None:
        repo = self.owner.repos.get(name.lower())
        if repo is None:
            # As the real hub does: those without a token aren't told whether it exists.
            self._error(404 if self.headers.get("Authorization") else 401, "RepoNotFound", "Repository not found")
            return None
        if repo.token and not repo.gated and not self._authorized(repo):
            self._error(401, "RepoNotFound", "Repository not found")
            return None
        commit = list(repo.commits)[-1] if revision in (None, "main") else str(revision)
        if commit not in repo.commits:
            self._error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return None
        return repo, commit, repo.commits[commit]

    def _authorized(self, repo: Repo) -> bool:
        return repo.token is not None and self.headers.get("Authorization") == f"Bearer {repo.token}"

    def _content(self, file: Path, headers: dict[str, str]) -> None:
        data = file.read_bytes()
        start = 0
        wanted = "" if self.owner.ignore_ranges else self.headers.get("Range") or ""
        if match := re.fullmatch(r"bytes=(\d+)-", wanted):
            start = int(match.group(1))
            if start >= len(data):
                return self._error(416, "", "nothing there", {"Content-Range": f"bytes */{len(data)}"})
            headers = {**headers, "Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}
        return self._send(206 if start else 200, data[start:], headers)

    def _json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _error(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        extra = {"X-Error-Message": message, **(headers or {})}
        if code:
            extra["X-Error-Code"] = code
        self._send(status, json.dumps({"error": message}).encode(), {**extra, "Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status, HTTPStatus(status).phrase)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        hub = self.owner
        fault = hub.take_fault(self.path, lambda kind: kind in ("cut", "stall")) if status in (200, 206) else None
        if fault is None:
            self.wfile.write(body)
            return
        self.wfile.write(body[: fault.after])
        self.wfile.flush()
        if fault.kind == "stall":
            hub.stalled.set()
            hub.closing.wait()
        self.close_connection = True


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


def _describe(file: Path, name: str) -> dict[str, Any]:
    data = file.read_bytes()
    blob = hashlib.sha1(f"blob {len(data)}\0".encode() + data, usedforsecurity=False).hexdigest()
    described: dict[str, Any] = {"rfilename": name, "size": len(data), "blobId": blob, "oid": blob}
    if file.suffix in _LARGE:
        sha256 = hashlib.sha256(data).hexdigest()
        described["lfs"] = {"sha256": sha256, "oid": sha256, "size": len(data), "pointerSize": 134}
    return described


def _only(described: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: described[key] for key in keys if key in described}


def main() -> None:
    """Serve the tiny model until the process is ended."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory(prefix="drydock-hub-") as scratch, Hub() as hub:
        hub.add_qwen(Path(scratch))
        print(f"ready {hub.url}", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
