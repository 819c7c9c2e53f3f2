"""An image archive as ``docker load`` reads it, written by hand.

``docker import`` would do, but it writes the present time into the image's configuration, so that the same content has
another id each time.
"""

from __future__ import annotations

import hashlib
import json
import platform
import tarfile
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from harness.stack.images.pip_config import sha256_of

BLOCK = 1 << 20
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def architecture() -> str:
    """This machine's architecture as Docker calls it."""
    machine = platform.machine()
    return ARCHITECTURES.get(machine, machine)


def configuration(layer_digest: str, created: int, labels: dict[str, str], made_by: str) -> bytes:
    """An image's configuration; its sha256 is the image's id."""
    moment = datetime.fromtimestamp(created, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    config: dict[str, Any] = {
        "architecture": architecture(),
        "os": "linux",
        "created": moment,
        "config": {
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Cmd": ["bash"],
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
        "history": [{"created": moment, "created_by": made_by}],
    }
    return json.dumps(config, sort_keys=True, separators=(",", ":")).encode()


def image_archive(layer: Path, config: bytes, reference: str) -> Iterator[bytes]:
    """The archive, block by block: the layer is read from its file as it is needed."""
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [reference], "Layers": ["layer.tar"]}]).encode()
    yield _header("manifest.json", len(manifest)) + _padded(manifest)
    yield _header(config_name, len(config)) + _padded(config)
    size = layer.stat().st_size
    yield _header("layer.tar", size)
    with layer.open("rb") as file:
        while block := file.read(BLOCK):
            yield block
    yield b"\0" * (-size % tarfile.BLOCKSIZE)
    yield b"\0" * (2 * tarfile.BLOCKSIZE)


def layer_digest(layer: Path) -> str:
    """The digest that an image's configuration knows an uncompressed layer by."""
    return sha256_of(layer)


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(tarfile.PAX_FORMAT)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % tarfile.BLOCKSIZE)
