"""What is here is listed by the name that gets just it; what is ours can be removed, and nothing else is."""

from __future__ import annotations

import shutil
from pathlib import Path

from harness.models import disk_usage, ensure_weights, installed, remove, resolve
from harness.models.cache import hub_cache, make_root
from harness.models.fetch import INCOMPLETE
from tests.support.hub import Hub
from tests.unit.models.conftest import MakeSettings


def test_nothing_here_is_an_empty_list(make: MakeSettings) -> None:
    assert installed(make()) == []
    assert disk_usage(make()) == 0
    assert remove(make()) == 0


def test_pinned_models_go_by_their_alias_and_others_by_their_commit(make: MakeSettings, hub: Hub, tiny: Path) -> None:
    hub.add("some/thing", tiny / "hf", "a" * 40)
    for model, engine in (("qwen2.5-0.5b", "llamacpp"), ("qwen2.5-0.5b", "vllm"), ("some/thing", "vllm")):
        settings = make(model=model, engine=engine, hf_endpoint=hub.url)
        ensure_weights(resolve(settings), settings.engine, settings)
    found = {(item.model, item.engines[0]): item for item in installed(make())}
    assert set(found) == {("qwen2.5-0.5b", "llamacpp"), ("qwen2.5-0.5b", "vllm"), (f"some/thing@{'a' * 40}", "vllm")}
    assert not any(item.ours for item in found.values())


def test_each_listed_model_can_be_served_offline_under_that_name(make: MakeSettings, hub: Hub, tiny: Path) -> None:
    hub.add("some/thing", tiny / "hf", "a" * 40)
    hub.add("some/thing-GGUF", tiny / "gguf", "b" * 40)
    for engine in ("llamacpp", "vllm"):
        settings = make(model="some/thing", engine=engine, hf_endpoint=hub.url)
        ensure_weights(resolve(settings), settings.engine, settings)
    listed = installed(make())
    assert len(listed) == 2
    for item in listed:
        settings = make(model=item.model, engine=item.engines[0], hf_hub_offline=True)
        assert ensure_weights(resolve(settings), settings.engine, settings).size == item.size


def test_half_a_model_is_not_listed(make: MakeSettings, hub: Hub) -> None:
    settings = make(model="qwen2.5-0.5b", engine="vllm", hf_endpoint=hub.url)
    ensure_weights(resolve(settings), "vllm", settings)
    next(hub_cache().glob("models--*/snapshots/*/model.safetensors")).unlink()
    assert installed(make()) == []


def test_removing_frees_our_own_and_leaves_the_hub_cache(make: MakeSettings, hub: Hub) -> None:
    settings = make(model="qwen2.5-0.5b", hf_endpoint=hub.url)
    weights = ensure_weights(resolve(settings), "llamacpp", settings).host_path
    (make_root(settings) / "smollm2-135m").mkdir()
    (make_root(settings) / "smollm2-135m" / "weights").write_bytes(bytes(1000))
    partial = weights.with_name(f"abc{INCOMPLETE}")
    partial.write_bytes(bytes(500))
    assert disk_usage(settings) >= 1500
    assert remove(settings) >= 1500
    assert weights.is_file()
    assert not partial.exists()
    assert not settings.cache.exists()
    assert disk_usage(settings) == 0


def test_a_folder_that_is_not_ours_is_not_removed(make: MakeSettings, tmp_path: Path) -> None:
    # DRYDOCK_CACHE may point anywhere, by mistake as well.
    theirs = tmp_path / "cache" / "models"
    theirs.mkdir(parents=True)
    (theirs / "precious").touch()
    remove(make())
    assert (theirs / "precious").exists()
    shutil.rmtree(theirs)
