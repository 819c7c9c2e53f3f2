"""Downloads arrive whole or not at all, and go on where they stopped."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from harness.errors import DownloadFailed, NoSpace, WeightsMissing
from harness.models import fetch as fetch_module
from harness.models.cache import hub_cache
from harness.models.plan import resolve
from harness.models.weights import ModelFiles, ensure_weights
from tests.support.hub import QWEN, QWEN_COMMIT, QWEN_GGUF_COMMIT, QWEN_GGUF_FILE, Hub
from tests.unit.models.conftest import MakeSettings


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_module, "_FIRST_PAUSE", 0.0)


def get(make: MakeSettings, hub: Hub | None, **values: object) -> ModelFiles:
    endpoint = {"hf_endpoint": hub.url} if hub else {"hf_endpoint": "https://hub.invalid"}
    settings = make(**{"model": "qwen2.5-0.5b", **endpoint, **values})
    return ensure_weights(resolve(settings), settings.engine, settings)


def blobs() -> list[str]:
    return sorted(file.name for file in hub_cache().glob("models--*/blobs/*"))


def test_llama_cpp_gets_the_one_file_it_needs(make: MakeSettings, hub: Hub, tiny: Path) -> None:
    files = get(make, hub)
    assert files.revision == QWEN_GGUF_COMMIT
    assert files.container_path == f"/models/{QWEN_GGUF_FILE}" == files.mount_target
    assert files.host_path.read_bytes() == (tiny / "gguf" / QWEN_GGUF_FILE).read_bytes()
    assert files.context == 32768


def test_vllm_gets_a_folder_whose_links_stay_inside_the_mount(make: MakeSettings, hub: Hub, tiny: Path) -> None:
    files = get(make, hub, engine="vllm")
    assert files.revision == QWEN_COMMIT
    assert files.mount_target == "/models"
    inside = files.host_path / files.container_path.removeprefix("/models/")
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        assert (inside / name).read_bytes() == (tiny / "hf" / name).read_bytes()
        assert (inside / name).resolve().is_relative_to(files.host_path)


def test_what_no_engine_reads_is_not_downloaded(make: MakeSettings, hub: Hub, tiny: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny / "hf", tmp_path / "more"))
    (folder / "pytorch_model.bin").write_bytes(b"pickle")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.json").write_text("{}", encoding="utf-8")
    hub.add(QWEN, folder, QWEN_COMMIT)
    get(make, hub, engine="vllm")
    assert hub.served("model.safetensors")
    assert not hub.served("pytorch_model.bin") + hub.served("onnx")


def test_what_is_here_is_used_without_any_request(make: MakeSettings, hub: Hub) -> None:
    first = get(make, hub)
    asked = len(hub.requests)
    again = get(make, hub)
    assert len(hub.requests) == asked
    assert again.host_path == first.host_path
    # And the other way round: no network at all, and no error.
    assert get(make, None).host_path == first.host_path
    assert get(make, None, hf_hub_offline=True).host_path == first.host_path


def test_any_letter_case_finds_what_is_here(make: MakeSettings, hub: Hub) -> None:
    first = get(make, hub, engine="vllm")
    assert get(make, None, engine="vllm", model=f"{QWEN.upper()}@{QWEN_COMMIT}").host_path == first.host_path


def test_offline_with_nothing_here_says_so(make: MakeSettings, hub: Hub) -> None:
    with pytest.raises(WeightsMissing, match="HF_HUB_OFFLINE is set") as caught:
        get(make, hub, hf_hub_offline=True)
    assert "HF_HUB_OFFLINE=0" in caught.value.mend
    assert hub.requests == []


def test_a_cut_connection_is_taken_up_where_it_broke(make: MakeSettings, hub: Hub) -> None:
    hub.fault("cut", QWEN_GGUF_FILE, times=2, after=100_000)
    get(make, hub)
    assert [request.range for request in hub.served(QWEN_GGUF_FILE)] == [None, "bytes=100000-", "bytes=200000-"]


def test_a_download_that_failed_goes_on_next_time(make: MakeSettings, hub: Hub) -> None:
    hub.fault("cut", QWEN_GGUF_FILE, times=1, after=150_000)
    hub.fault("500", "/resolve/", skip=1)
    with pytest.raises(DownloadFailed, match=r"stopped at 150\.0 kB of 449\.7 kB") as caught:
        get(make, hub)
    assert "goes on from there" in caught.value.mend
    assert blobs()[0].endswith(".incomplete")
    assert not list(hub_cache().glob("models--*/snapshots/*/*")), "a half-written file could be served"
    hub.mend()
    get(make, hub)
    assert hub.served(QWEN_GGUF_FILE)[-1].range == "bytes=150000-"
    assert not [name for name in blobs() if name.endswith(".incomplete")]


def test_bytes_that_were_changed_on_the_way_are_thrown_away(make: MakeSettings, hub: Hub) -> None:
    hub.fault("cut", QWEN_GGUF_FILE, times=1, after=150_000)
    hub.fault("500", "/resolve/", skip=1)
    with pytest.raises(DownloadFailed):
        get(make, hub)
    (partial,) = hub_cache().glob("models--*/blobs/*.incomplete")
    partial.write_bytes(bytes(150_000))
    hub.mend()
    with pytest.raises(DownloadFailed, match="another content than the hub announced"):
        get(make, hub)
    assert blobs() == []
    assert get(make, hub).size == 449_696


def test_a_server_that_ignores_where_to_go_on_is_read_from_the_start(
    make: MakeSettings, hub: Hub, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.fault("cut", QWEN_GGUF_FILE, times=1, after=150_000)
    hub.ignore_ranges = True
    files = get(make, hub)
    assert files.host_path.read_bytes() == (tiny / "gguf" / QWEN_GGUF_FILE).read_bytes()


def test_a_blob_of_the_wrong_size_is_fetched_again(make: MakeSettings, hub: Hub) -> None:
    blob = get(make, hub).host_path
    blob.write_bytes(blob.read_bytes()[:1000])
    with pytest.raises(WeightsMissing, match="half there"):
        get(make, None, hf_hub_offline=True)
    assert get(make, hub).host_path.stat().st_size == 449_696


def test_the_token_stays_with_the_hub(make: MakeSettings, tiny: Path) -> None:
    with Hub(elsewhere=True) as hub:
        hub.add_qwen_from(tiny)
        get(make, hub, hf_token="hf_secret")
        assert {request.authorization for request in hub.served("/resolve/")} == {"Bearer hf_secret"}
        assert [request.authorization for request in hub.served("/storage/")] == [None]


def test_no_space_is_said_before_anything_is_downloaded(
    make: MakeSettings, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = shutil.disk_usage("/")._replace(free=10_000_000)
    monkeypatch.setattr("harness.models.cache.shutil.disk_usage", lambda path: full)
    with pytest.raises(NoSpace, match=r"needs 449\.7 kB, and the disk of .* has 10\.0 MB free") as caught:
        get(make, hub)
    assert caught.value.exit_code == 3
    assert not hub.served("/resolve/")


def test_a_disk_that_fills_up_meanwhile_is_said_to_be_full(
    make: MakeSettings, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fetch_module, "_append", full)
    with pytest.raises(NoSpace, match="filled up"):
        get(make, hub)


def test_a_cache_that_may_not_be_written_is_named(
    make: MakeSettings, hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(*args: Any) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path / "hf-home" / "hub"))

    monkeypatch.setattr(fetch_module, "_append", refused)
    with pytest.raises(DownloadFailed, match=r"hf-home/hub can't be written by user \d+: Permission denied") as caught:
        get(make, hub)
    assert "HF_HOME=" in caught.value.mend


def test_the_newest_commit_is_recorded_and_stays(make: MakeSettings, hub: Hub, tiny: Path, tmp_path: Path) -> None:
    hub.add("some/thing", tiny / "hf", "a" * 40)
    assert get(make, hub, model="some/thing", engine="vllm").revision == "a" * 40
    hub.add("some/thing", tiny / "hf", "b" * 40)
    assert get(make, hub, model="some/thing", engine="vllm").revision == "a" * 40
    assert get(make, None, model="Some/Thing", engine="vllm").revision == "a" * 40
    assert get(make, hub, model=f"some/thing@{'b' * 40}", engine="vllm").revision == "b" * 40


def test_llama_cpp_looks_for_a_repository_with_gguf_beside(make: MakeSettings, hub: Hub, tiny: Path) -> None:
    hub.add("some/thing", tiny / "hf", "a" * 40)
    hub.add("some/thing-GGUF", tiny / "gguf", "c" * 40)
    files = get(make, hub, model="some/thing")
    assert (files.format, files.revision) == ("gguf", "c" * 40)
    assert files.names[:2] == ("thing", "some/thing")


def test_without_any_gguf_the_other_engine_is_named(make: MakeSettings, hub: Hub, tiny: Path) -> None:
    hub.add("some/thing", tiny / "hf", "a" * 40)
    with pytest.raises(Exception, match="neither some/thing nor some/thing-GGUF has any") as caught:
        get(make, hub, model="some/thing")
    assert "make up ENGINE=vllm MODEL=some/thing" in getattr(caught.value, "mend", "")


def test_two_at_once_download_once(make: MakeSettings, hub: Hub) -> None:
    results: list[ModelFiles] = []
    threads = [threading.Thread(target=lambda: results.append(get(make, hub))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len({files.host_path for files in results}) == 1
    assert len(results) == 3
    assert len(hub.served(QWEN_GGUF_FILE)) == 1


def test_a_cache_that_the_library_filled_is_used(make: MakeSettings, hub: Hub) -> None:
    huggingface_hub = pytest.importorskip("huggingface_hub")
    huggingface_hub.snapshot_download(QWEN, revision="main", endpoint=hub.url, cache_dir=hub_cache())
    asked = len(hub.requests)
    assert get(make, hub, engine="vllm").revision == QWEN_COMMIT
    assert get(make, None, engine="vllm", model=f"{QWEN}@main").revision == QWEN_COMMIT
    assert len(hub.requests) == asked


def test_the_library_accepts_what_was_put_there(make: MakeSettings, hub: Hub) -> None:
    huggingface_hub = pytest.importorskip("huggingface_hub")
    get(make, hub, engine="vllm")
    path = huggingface_hub.snapshot_download(QWEN, revision=QWEN_COMMIT, cache_dir=hub_cache(), local_files_only=True)
    assert (Path(path) / "model.safetensors").is_file()
    (repo,) = huggingface_hub.scan_cache_dir(hub_cache()).repos
    assert (repo.repo_id, repo.nb_files) == (QWEN, 5)
