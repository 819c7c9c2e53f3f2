"""Servers of packages on this machine's loopback, for tests: each wants a name and a password.

``PackageServer`` is a Python index of the wheels it is given and a Debian mirror that hands requests on to a real one.
``ImageRegistry`` is just enough of an image registry to be pulled from.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import threading
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

NAME = "drydock"
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


@dataclass
class PackageServer:
    """Python packages below ``/simple``, Debian's below ``/debian`` and ``/debian-security``.

    Args:
        password: what a client has to give; nothing is served without.
        wheels: files of the index.
        archive, security: the real mirrors.
        asked: paths that were served, refused ones left out.
    """

    password: str
    wheels: list[Path]
    archive: str
    security: str | None
    asked: list[str] = field(default_factory=list)
    # Knows the proxies of now; those of a test that comes later lead to this very server.
    _opener: urllib.request.OpenerDirector = field(default_factory=urllib.request.build_opener)

    def answer(self, path: str, authorization: str) -> tuple[int, bytes, str]:
        """Status, body and type for one request."""
        wanted = base64.b64encode(f"{NAME}:{self.password}".encode()).decode()
        if authorization != f"Basic {wanted}":
            return 401, b"", "text/plain"
        self.asked.append(path)
        if path.startswith("/simple/"):
            return self._index(path.strip("/").split("/")[1:])
        for prefix, mirror in (("/debian-security/", self.security), ("/debian/", self.archive)):
            if path.startswith(prefix) and mirror:
                return self._handed_on(f"{mirror}/{path.removeprefix(prefix)}")
        return 404, b"", "text/plain"

    def _index(self, parts: list[str]) -> tuple[int, bytes, str]:
        files = {path.name: path for path in self.wheels if path.name.split("-")[0] == parts[0].replace("-", "_")}
        if len(parts) == 2 and parts[1] in files:
            return 200, files[parts[1]].read_bytes(), "application/octet-stream"
        links = "".join(f'<a href="{name}">{name}</a>' for name in files)
        return (200 if files else 404), f"<!DOCTYPE html><body>{links}</body>".encode(), "text/html"

    def _handed_on(self, url: str) -> tuple[int, bytes, str]:
        try:
            with self._opener.open(url, timeout=60) as answer:
                return 200, answer.read(), "application/octet-stream"
        except urllib.error.HTTPError as error:
            return error.code, b"", "text/plain"


@dataclass
class ImageRegistry:
    """One image of one layer, under any name.

    Args:
        layer: the layer, an uncompressed tar.
        pulled: digests that were asked for.
    """

    layer: bytes
    pulled: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": ["bash"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(self.layer)]},
        }
        blobs = [json.dumps(config).encode(), gzip.compress(self.layer, compresslevel=1, mtime=0)]
        self.blobs = {_digest(blob): blob for blob in blobs}
        types = ["application/vnd.docker.container.image.v1+json", "application/vnd.docker.image.rootfs.diff.tar.gzip"]
        described = [
            {"mediaType": kind, "size": len(blob), "digest": _digest(blob)}
            for kind, blob in zip(types, blobs, strict=True)
        ]
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described[0], "layers": described[1:]}
        self.manifest = json.dumps(manifest).encode()

    @property
    def digest(self) -> str:
        """The digest that the image is pinned by."""
        return _digest(self.manifest)

    def answer(self, path: str, _authorization: str) -> tuple[int, bytes, str]:
        """Status, body and type for one request."""
        if path == "/v2/":
            return 200, b"{}", "application/json"
        kind, _, reference = path.rpartition("/")
        if kind.endswith("/manifests"):
            self.pulled.append(path)
            return 200, self.manifest, MANIFEST
        if kind.endswith("/blobs") and reference in self.blobs:
            return 200, self.blobs[reference], "application/octet-stream"
        return 404, b"{}", "application/json"


@contextmanager
def serving(answerer: PackageServer | ImageRegistry) -> Iterator[int]:
    """Serve on a free port of 127.0.0.1 for as long as the context lasts; gives the port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, body, kind = answerer.answer(self.path, self.headers.get("Authorization", ""))
            self.send_response(status)
            if status == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="packages"')
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            if isinstance(answerer, ImageRegistry) and body:
                self.send_header("Docker-Content-Digest", _digest(body))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            """Be silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def write_wheel(folder: Path, name: str, version: str, source: str) -> Path:
    """A wheel of one module."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", source)
        info = f"{name}-{version}.dist-info"
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return path


def locked(*wheels: Path) -> str:
    """Lines of a lock for these wheels."""
    return "".join(
        f"{path.name.split('-')[0]}=={path.name.split('-')[1]} --hash={_digest(path.read_bytes())}\n" for path in wheels
    )


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
