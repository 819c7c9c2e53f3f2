"""The model's own checks: files, checksums, chat template, context."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.doctor.topics.model import (
    Facts,
    Sums,
    _unasked,
    compare_sums,
    decide_context,
    decide_files,
    decide_sums,
    decide_template,
    facts_of,
    half_done,
    has_template,
)
from harness.models.weights import ModelFiles
from tests.support import tiny_model

FACTS = Facts("tiny", "this machine", 1000, (Path("/m/a"),), True, 8192)


def signs(findings: list) -> list[str]:  # type: ignore[type-arg]
    return [finding.sign for finding in findings]


def test_whole_files_are_fine_and_what_a_download_left_is_named() -> None:
    assert signs(decide_files(FACTS)) == ["ok"]
    left = decide_files(replace(FACTS, half=((Path("/cache/blobs/x.incomplete"), 500),)))
    assert signs(left) == ["ok", "warn"]
    assert left[1].mend == "rm /cache/blobs/x.incomplete"


@pytest.mark.parametrize(
    ("sums", "expected"),
    [
        (Sums(right=2), ["ok"]),
        (Sums(wrong=(Path("/m/a"),), right=1), ["bad"]),
        (Sums(right=1, unread=10**9), ["note", "ok"]),
        (Sums(unknown=3), ["note"]),
    ],
)
def test_checksums(sums: Sums, expected: list[str]) -> None:
    assert signs(decide_sums(sums, "tiny", Path("/cache"))) == expected


def test_a_damaged_file_is_removed_for_you_in_our_own_cache_only() -> None:
    sums = Sums(wrong=(Path("/cache/models/a.gguf"),))
    assert decide_sums(sums, "tiny", Path("/cache"))[0].fix == ("rm", "--", "/cache/models/a.gguf")
    assert decide_sums(sums, "tiny", Path("/other"))[0].fix == ()


def test_a_model_without_a_chat_template() -> None:
    assert signs(decide_template(FACTS, "vllm")) == ["ok"]
    assert signs(decide_template(replace(FACTS, template=None), "vllm")) == ["warn"]
    (finding,) = decide_template(replace(FACTS, template=False), "vllm")
    assert finding.sign == "warn"
    assert "refuses every chat" in finding.consequence


@pytest.mark.parametrize(
    ("context", "asked", "expected"),
    [
        (8192, 0, ["ok"]),
        (8192, 4096, ["ok"]),
        (8192, 32768, ["warn"]),
        (8192, 512, ["warn"]),
        (512, 0, ["warn"]),
        (None, 0, []),
    ],
)
def test_the_context(context: int | None, asked: int, expected: list[str]) -> None:
    assert signs(decide_context(replace(FACTS, context=context), asked)) == expected


@pytest.fixture
def cached(tmp_path: Path) -> ModelFiles:
    """A model in the layout of the hub's cache: a file is named by its checksum."""
    import hashlib

    source = tiny_model.write_folder(tmp_path / "source")
    blobs, snapshot = tmp_path / "models--x" / "blobs", tmp_path / "models--x" / "snapshots" / "1"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for file in source.iterdir():
        content = file.read_bytes()
        blob = blobs / hashlib.sha256(content).hexdigest()
        blob.write_bytes(content)
        (snapshot / file.name).symlink_to(blob)
    return ModelFiles(snapshot, "/models/x", "/models/x", ("x",), "safetensors", "1", "the hub", 1, 32768)


def test_a_real_model_and_the_same_with_one_byte_changed(cached: ModelFiles) -> None:
    sums = compare_sums(cached, 60.0)
    assert (sums.wrong, sums.unknown, sums.unread) == ((), 0, 0)
    assert sums.right > 2
    weights = cached.host_path / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.resolve().write_bytes(content)
    (finding,) = decide_sums(compare_sums(cached, 60.0), "x", Path("/cache"))
    assert finding.sign == "bad"
    assert finding.text.startswith(str(weights))
    assert str(weights.resolve()) in finding.mend


def test_without_time_nothing_is_read_and_that_is_said(cached: ModelFiles) -> None:
    sums = compare_sums(cached, 0.0)
    assert sums.right == 0
    assert sums.unread > 0


def test_templates_are_found_where_models_keep_them(cached: ModelFiles, tmp_path: Path) -> None:
    facts = facts_of(cached)
    assert facts.template is True
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "tokenizer_config.json").write_text("{}")
    assert has_template((bare / "tokenizer_config.json",)) is False
    (bare / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ x }}"}))
    assert has_template((bare / "tokenizer_config.json",)) is True
    assert has_template((bare / "chat_template.jinja",)) is True
    (bare / "tokenizer_config.json").write_text("{")
    assert has_template((bare / "tokenizer_config.json",)) is None
    assert has_template(()) is False


def test_broken_off_downloads_are_seen_beside_the_blobs(cached: ModelFiles) -> None:
    paths = (cached.host_path / "config.json",)
    assert half_done(paths) == ()
    left = paths[0].resolve().parent / "abc.incomplete"
    left.write_bytes(b"12345")
    assert half_done(paths) == ((left, 5),)


def test_the_context_of_an_engine_that_was_told_none_is_its_own() -> None:
    """llama.cpp gives a request less than the model can attend to, unless somebody asks for more."""
    assert _unasked("llamacpp", replace(FACTS, context=8192)) == 2048
    assert _unasked("llamacpp", replace(FACTS, context=512)) == 512
    assert _unasked("llamacpp", replace(FACTS, context=None)) == 0
    assert _unasked("vllm", replace(FACTS, context=8192)) == 0
    (said,) = decide_context(replace(FACTS, context=8192), _unasked("llamacpp", replace(FACTS, context=8192)))
    assert said.text == "context: 2,048 of 8,192 tokens"
