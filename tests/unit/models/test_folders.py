"""A model folder that lacks something is refused, with the name of what it lacks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from harness.errors import UnusableModel
from harness.models.folders import check_folder, ggufs, wanted


@pytest.fixture
def folder(tiny: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny / "hf", tmp_path / "model"))


def test_a_whole_folder_says_what_it_is(folder: Path) -> None:
    model = check_folder(folder)
    assert (model.architecture, model.context) == ("Qwen2ForCausalLM", 32768)
    assert {file.name for file in model.files} >= {"model.safetensors", "tokenizer.json", "config.json"}
    assert model.size > 200_000


def test_a_folder_without_a_model_says_what_it_holds(tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "notes.txt").touch()
    with pytest.raises(UnusableModel, match=r"no config\.json; it holds notes\.txt"):
        check_folder(folder)


def test_an_empty_folder_is_called_empty(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnusableModel, match="it is empty"):
        check_folder(tmp_path / "empty")


def test_the_folder_above_the_model_leads_to_it(folder: Path) -> None:
    with pytest.raises(UnusableModel) as caught:
        check_folder(folder.parent)
    assert f"MODEL={folder}" in caught.value.mend


def test_an_adapter_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UnusableModel, match="adapter"):
        check_folder(tmp_path)


def test_a_missing_tokenizer_is_named(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    with pytest.raises(UnusableModel, match="no tokenizer"):
        check_folder(folder)


def test_weights_that_were_cut_off_are_refused(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(UnusableModel, match=r"model\.safetensors is damaged.*224,29[0-9] bytes"):
        check_folder(folder)


def test_weights_that_are_something_else_are_refused(folder: Path) -> None:
    # What git leaves where git-lfs isn't installed.
    (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n", encoding="utf-8")
    with pytest.raises(UnusableModel, match="header can't be read"):
        check_folder(folder)


def test_missing_shards_are_counted_and_named(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}), encoding="utf-8")
    with pytest.raises(UnusableModel, match=r"lacks 1 of the 2 .*model-00002-of-00002\.safetensors"):
        check_folder(folder)


def test_pickled_weights_are_refused_with_the_reason(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UnusableModel, match="not as safetensors") as caught:
        check_folder(folder)
    assert "run code" in caught.value.consequence


def test_a_broken_config_is_named(folder: Path) -> None:
    (folder / "config.json").write_text('{"architectures": [', encoding="utf-8")
    with pytest.raises(UnusableModel, match=r"config\.json can't be read"):
        check_folder(folder)


@pytest.mark.parametrize(
    "name", ["model-00001-of-00002.safetensors", "config.json", "merges.txt", "chat_template.jinja"]
)
def test_what_an_engine_reads_is_wanted(name: str) -> None:
    assert wanted(name)


@pytest.mark.parametrize(
    "name",
    ["pytorch_model.bin", "original/model.safetensors", "consolidated.safetensors", "README.md", ".gitattributes"],
)
def test_what_only_costs_time_is_not_wanted(name: str) -> None:
    assert not wanted(name)


def test_split_files_and_projectors_are_not_counted_as_models(tmp_path: Path) -> None:
    for name in ("a-00001-of-00002.gguf", "a-00002-of-00002.gguf", "mmproj-a.gguf", "b.gguf"):
        (tmp_path / name).touch()
    assert [file.name for file in ggufs(tmp_path)] == ["a-00001-of-00002.gguf", "b.gguf"]
