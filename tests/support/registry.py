"""Debian's own docker-registry on this machine, and images of any digest in it, made without Docker."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests

from tests.support.harness import CLONE, free_port

INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"

USER, PASSWORD = "reader", "c4n4ry-r3g"
_HTPASSWD = f"{USER}:$2b$04$Um7Z0HXICmSChhAXad1A9ui8G1zQCbVUYWitZ2BOjUI1fSkCFzvcK\n"


def registry_program() -> Path | None:
    """Debian's docker-registry: this system's, or unpacked from its package; None without either."""
    if found := shutil.which("docker-registry"):
        return Path(found)
    folder = CLONE / ".drydock" / "test-tools" / "docker-registry"
    program = folder / "usr" / "bin" / "docker-registry"
    if program.is_file():
        return program
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        return None
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        # Lists of packages of its own: this system's may be empty, and are left as they are.
        (Path(scratch) / "lists" / "partial").mkdir(parents=True)
        apt = ["apt-get", "-o", f"Dir::State::lists={scratch}/lists", "-o", "APT::Sandbox::User=root"]
        for verb in (["update"], ["download", "docker-registry"]):
            subprocess.run([*apt, *verb], cwd=scratch, capture_output=True, check=False)
        for package in Path(scratch).glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", str(package), str(folder)], check=False)
    return program if program.is_file() else None


@dataclass(frozen=True)
class Registry:
    """A registry that runs.

    Attributes:
        host: HOST:PORT as it stands in an image's name.
        url: where its API is.
        login: user and password, where it asks for them.
        authority: the certificate that its own is signed by, or None.
    """

    host: str
    url: str
    login: tuple[str, str] | None = None
    authority: Path | None = None

    def push(self, name: str, tag: str, content: str, platforms: tuple[str, ...] = ("amd64", "arm64")) -> str:
        """Put a multi-platform image there, or move its tag; returns the index's digest."""
        manifests = []
        for architecture in platforms:
            raw = _manifest(self._blobs(name, content, architecture))
            digest = self._put_manifest(name, sha256(raw), raw, MANIFEST)
            platform = {"architecture": architecture, "os": "linux"}
            manifests.append({"mediaType": MANIFEST, "size": len(raw), "digest": digest, "platform": platform})
        index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}).encode()
        return self._put_manifest(name, tag, index, INDEX)

    def delete(self, name: str, digest: str) -> None:
        """Remove a manifest, and every tag that leads to it."""
        self._ask("DELETE", f"/v2/{name}/manifests/{digest}").raise_for_status()

    def _blobs(self, name: str, content: str, architecture: str) -> list[dict[str, Any]]:
        tar = io.BytesIO()
        with tarfile.open(fileobj=tar, mode="w") as archive:
            member = tarfile.TarInfo("content")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content.encode()))
        config = json.dumps(
            {
                "architecture": architecture,
                "os": "linux",
                "config": {"Cmd": ["/content"]},
                "rootfs": {"type": "layers", "diff_ids": [sha256(tar.getvalue())]},
            }
        ).encode()
        layer = gzip.compress(tar.getvalue(), mtime=0)
        described = []
        for blob, kind in ((config, CONFIG), (layer, LAYER)):
            place = self._ask("POST", f"/v2/{name}/blobs/uploads/").headers["Location"]
            joint = "&" if "?" in place else "?"
            self._ask("PUT", f"{place}{joint}digest={sha256(blob)}", blob).raise_for_status()
            described.append({"mediaType": kind, "size": len(blob), "digest": sha256(blob)})
        return described

    def _put_manifest(self, name: str, reference: str, raw: bytes, kind: str) -> str:
        self._ask("PUT", f"/v2/{name}/manifests/{reference}", raw, kind).raise_for_status()
        return sha256(raw)

    def _ask(self, method: str, path: str, body: bytes | None = None, kind: str = "application/octet-stream") -> Any:
        url = path if path.startswith("http") else self.url + path
        verify = str(self.authority) if self.authority else True
        headers = {"Content-Type": kind} if body is not None else {}
        return requests.request(
            method, url, data=body, headers=headers, auth=self.login, timeout=20, verify=verify,
            proxies={"http": "", "https": ""},
        )  # fmt: skip


def sha256(blob: bytes) -> str:
    """A digest as registries write it."""
    return "sha256:" + hashlib.sha256(blob).hexdigest()


def _manifest(described: list[dict[str, Any]]) -> bytes:
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described[0], "layers": described[1:]}
    return json.dumps(manifest).encode()


@contextlib.contextmanager
def running(
    folder: Path,
    program: Path,
    *,
    login: bool = False,
    tls: tuple[Path, Path] | None = None,
    address: str = "127.0.0.1",
) -> Iterator[Registry]:
    """Run a registry on a free port for as long as the context lasts.

    Args:
        folder: an empty one, for its files.
        login: whether it asks for USER and PASSWORD.
        tls: its certificate (with its authority's after it) and key.
        address: where it listens.
    """
    port = free_port()
    http: dict[str, Any] = {"addr": f"{address}:{port}", "secret": "test"}
    if tls:
        http["tls"] = {"certificate": str(tls[0]), "key": str(tls[1])}
    configuration: dict[str, Any] = {
        "version": 0.1,
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}, "delete": {"enabled": True}},
        "http": http,
    }
    if login:
        (folder / "htpasswd").write_text(_HTPASSWD)
        configuration["auth"] = {"htpasswd": {"realm": "test", "path": str(folder / "htpasswd")}}
    (folder / "config.yml").write_text(json.dumps(configuration))  # JSON is YAML
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([str(program), "serve", str(folder / "config.yml")], stdout=log, stderr=log)
    registry = Registry(
        f"{address}:{port}",
        f"{'https' if tls else 'http'}://{address}:{port}",
        (USER, PASSWORD) if login else None,
        tls[0] if tls else None,
    )
    try:
        _until_it_answers(registry, process, folder / "log")
        yield registry
    finally:
        process.terminate()
        process.wait()


def _until_it_answers(registry: Registry, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            registry._ask("GET", "/v2/")
            return
        except requests.exceptions.ConnectionError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)


@contextlib.contextmanager
def refusing(status: int, code: str, message: str) -> Iterator[str]:
    """A registry that answers every question with one error, as a hub does that has had enough; gives HOST:PORT."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = json.dumps({"errors": [{"code": code, "message": message}]}).encode()
            status_now = 200 if self.path == "/v2/" else status
            self.send_response(status_now)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            if status_now == 429:
                self.send_header("Retry-After", "1")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            """Be silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
