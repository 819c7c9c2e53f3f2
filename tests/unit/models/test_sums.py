"""Checksums of weights, and whether a file is still what its place says."""

from __future__ import annotations

import hashlib
from pathlib import Path

from harness import models
from harness.models.plan import resolve
from harness.models.sums import check_sums, known_sums
from harness.models.weights import configuration, ensure_weights
from tests.support.hub import Hub
from tests.unit.models.conftest import MakeSettings


def test_every_file_is_known_by_its_place_in_the_hub_cache(make: MakeSettings, hub: Hub) -> None:
    settings = make(model="qwen2.5-0.5b", hf_endpoint=hub.url, engine="vllm")
    files = ensure_weights(resolve(settings), settings.engine, settings)
    sums = {one.name: one for one in check_sums(files)}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(sums)
    assert [name for name, one in sums.items() if one.good is not True] == []
    known = known_sums(files)
    # Small files are named by git's id there, which is no sha256.
    assert known["model.safetensors"] == sums["model.safetensors"].sha256
    found = models.here(resolve(settings), settings.engine, settings)
    assert found
    assert (found.host_path, found.revision) == (files.host_path, files.revision)
    assert isinstance(configuration(files), dict)


def test_a_file_that_was_changed_on_the_disk_is_found(make: MakeSettings, hub: Hub) -> None:
    settings = make(model="qwen2.5-0.5b", hf_endpoint=hub.url, engine="vllm")
    files = ensure_weights(resolve(settings), settings.engine, settings)
    inside = files.host_path / files.container_path.removeprefix("/models/")
    for name in ("model.safetensors", "config.json"):
        blob = (inside / name).resolve()
        content = bytearray(blob.read_bytes())
        content[-1] ^= 1
        blob.chmod(0o644)
        blob.write_bytes(content)
    assert sorted(one.name for one in check_sums(files) if one.good is False) == ["config.json", "model.safetensors"]


def test_ones_own_folder_is_hashed_and_not_judged(make: MakeSettings, tiny: Path) -> None:
    settings = make(model=str(tiny / "hf"), engine="vllm")
    files = ensure_weights(resolve(settings), settings.engine, settings)
    sums = check_sums(files)
    assert {one.good for one in sums} == {None}
    weights = next(one for one in sums if one.name == "model.safetensors")
    assert weights.sha256 == hashlib.sha256((tiny / "hf" / "model.safetensors").read_bytes()).hexdigest()


def test_what_is_not_here_is_not_fetched(make: MakeSettings) -> None:
    settings = make(model="qwen2.5-0.5b", hf_endpoint="https://hub.invalid")
    assert models.here(resolve(settings), settings.engine, settings) is None
    default = make(model="smollm2-135m")
    assert models.here(resolve(default), default.engine, default) is None
