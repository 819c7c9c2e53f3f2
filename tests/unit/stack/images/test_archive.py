"""An image archive written by hand is one that a tar reader and Docker understand, and repeats bit for bit."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

from harness.stack.images import archive


def test_the_archive_holds_manifest_configuration_and_layer(tmp_path: Path) -> None:
    layer = tmp_path / "layer"
    layer.write_bytes(b"x" * 1000)
    config = archive.configuration(archive.layer_digest(layer), 1_700_000_000, {"a": "b"}, "a test")
    data = b"".join(archive.image_archive(layer, config, "ns/base:1"))
    assert data == b"".join(archive.image_archive(layer, config, "ns/base:1"))
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        (manifest,) = json.load(tar.extractfile("manifest.json") or io.BytesIO())
        assert manifest["RepoTags"] == ["ns/base:1"]
        name = f"{hashlib.sha256(config).hexdigest()}.json"
        assert manifest["Config"] == name
        assert (tar.extractfile(name) or io.BytesIO()).read() == config
        assert (tar.extractfile("layer.tar") or io.BytesIO()).read() == b"x" * 1000


def test_the_configuration_depends_on_nothing_but_its_arguments() -> None:
    config = json.loads(archive.configuration("ab" * 32, 1_700_000_000, {}, "a test"))
    assert config["created"] == "2023-11-14T22:13:20Z"
    assert config["rootfs"]["diff_ids"] == ["sha256:" + "ab" * 32]
