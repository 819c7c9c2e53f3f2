"""Files of samples in another format are named for what they are, and the offered command makes lines of them."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from pathlib import Path

import pytest

from harness.checks import samples
from harness.errors import DataUnreadable

SAMPLES = [{"prompt": "2+2?", "answer": "4"}, {"prompt": "Größe, bitte?", "answer": "ja"}]
LINES = "".join(f"{json.dumps(sample)}\n" for sample in SAMPLES)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("utf16.jsonl", LINES.encode("utf-16"), "UTF-16"),
        ("list.json", json.dumps(SAMPLES, indent=2).encode(), "one JSON list of all samples"),
        ("one line.json", json.dumps(SAMPLES).encode(), "one JSON list of all samples"),
        ("data.jsonl.gz", gzip.compress(LINES.encode()), "compressed by gzip"),
    ],
)
def test_the_command_that_is_offered_writes_the_same_samples(
    tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(DataUnreadable) as told:
        samples.read(file)
    assert words in told.value.what
    command, *_ = told.value.mend.splitlines()
    subprocess.run(command, shell=True, check=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
    (written,) = [path for path in tmp_path.iterdir() if path != file]
    data = samples.read(written)
    assert [data.sample(index).data for index in range(len(data))] == SAMPLES


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("train.parquet", b"PAR1\x15\x04\x15", "Parquet file, as verl"),
        ("table.csv", b"prompt,answer\n2+2?,4\n3+3?,6\n", "a table with commas (CSV)"),
        ("table.tsv", b"prompt\tanswer\n2+2?\t4\n", "a table with tabs (TSV)"),
        ("a.zip", b"PK\x03\x04....", "a zip archive"),
        ("cache.arrow", b"ARROW1\0\0", "an Arrow file"),
        ("pretty.json", b'{\n  "prompt": "2+2?"\n}\n', "one JSON object over several lines"),
    ],
)
def test_another_format_is_named(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataUnreadable) as told:
        samples.read(tmp_path / name)
    assert words in told.value.what
    assert "one JSON object a line" in told.value.mend


@pytest.mark.parametrize("content", [b"", b"not json\nnor this\n", b"[1, 2]\n", b'"a, b"\n', b'{"a": 1}\n[2]\n', b"[]"])
def test_what_is_no_other_format_is_judged_line_by_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data.jsonl").write_bytes(content)
    samples.read(tmp_path / "data.jsonl")


def test_a_folder_with_the_name_of_a_data_set_is_not_offered(tmp_path: Path) -> None:
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(Exception, match="no data set") as told:
        samples.find("other.jsonl", [tmp_path])
    assert "folder.jsonl" not in str(told.value)
