"""A GGUF file that isn't whole is refused before an engine sees it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from harness.errors import UnusableModel
from harness.models.gguf import parts, read_header
from tests.support.hub import QWEN_GGUF_FILE


def test_a_whole_file_says_what_it_is(tiny: Path) -> None:
    header = read_header(tiny / "gguf" / QWEN_GGUF_FILE)
    assert (header.architecture, header.context, header.has_chat_template) == ("qwen2", 32768, True)


def test_another_kind_of_file_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"<html>not found</html>")
    with pytest.raises(UnusableModel, match="no GGUF file"):
        read_header(tmp_path / "a.gguf")


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").touch()
    with pytest.raises(UnusableModel):
        read_header(tmp_path / "a.gguf")


@pytest.mark.parametrize("share", [0.0001, 0.01, 0.5, 0.999999])
def test_a_file_that_was_cut_off_anywhere_is_refused(tiny: Path, tmp_path: Path, share: float) -> None:
    whole = (tiny / "gguf" / QWEN_GGUF_FILE).read_bytes()
    (tmp_path / "a.gguf").write_bytes(whole[: max(6, int(len(whole) * share))])
    with pytest.raises(UnusableModel, match="half there"):
        read_header(tmp_path / "a.gguf")


def test_absurd_counts_are_refused_without_reading_for_ever(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 2**60, 2**60) + bytes(100))
    with pytest.raises(UnusableModel):
        read_header(tmp_path / "a.gguf")


def test_a_split_model_needs_all_its_parts(tmp_path: Path) -> None:
    first = tmp_path / "m-00001-of-00003.gguf"
    for name in ("m-00001-of-00003.gguf", "m-00003-of-00003.gguf"):
        (tmp_path / name).touch()
    with pytest.raises(UnusableModel, match=r"m-00002-of-00003\.gguf"):
        parts(first)
    (tmp_path / "m-00002-of-00003.gguf").touch()
    assert [part.name[2:7] for part in parts(first)] == ["00001", "00002", "00003"]
