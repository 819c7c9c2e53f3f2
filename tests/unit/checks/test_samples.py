from __future__ import annotations

from pathlib import Path

import pytest

from harness.checks import samples
from harness.errors import DataNotFound, DataUnreadable


def write(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "data.jsonl"
    path.write_bytes(content)
    return path


def test_samples_are_read_and_found_again(tmp_path: Path) -> None:
    data = samples.read(write(tmp_path, b'{"a": 1}\n\n{"a": "\xc3\xa9"}\r\n{"a": 3}'))
    assert (len(data), data.blank, data.bad_count) == (3, 1, 0)
    assert [(data.sample(i).line, data.sample(i).data["a"]) for i in range(3)] == [(1, 1), (3, "é"), (4, 3)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"a": 1', "no JSON: Expecting ',' delimiter at column 8"),
        (b"[1, 2]", "a list, not an object: run(data) gets a dict"),
        (b'"text"', "a string, not an object: run(data) gets a dict"),
        (b"null", "null, not an object: run(data) gets a dict"),
        (b"3", "a number, not an object: run(data) gets a dict"),
        (b"{}", "an empty object"),
        (b'{"a": "\xff"}', "byte 8 is no UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_malformed_line_is_named_with_its_reason(tmp_path: Path, line: bytes, reason: str) -> None:
    data = samples.read(write(tmp_path, b'{"a": 1}\n' + line + b'\n{"a": 2}\n'))
    assert [(bad.number, bad.reason) for bad in data.bad] == [(2, reason)]
    assert len(data) == 2
    assert data.sample(1).line == 3


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    data = samples.read(write(tmp_path, b'\xef\xbb\xbf{"a": 1}\n'))
    assert data.sample(0).data == {"a": 1}


def test_of_many_malformed_lines_some_are_named_and_all_counted(tmp_path: Path) -> None:
    data = samples.read(write(tmp_path, b"no\n" * 1000))
    assert (data.bad_count, len(data.bad), len(data)) == (1000, samples.MAX_NAMED, 0)


def test_an_empty_file_has_no_samples(tmp_path: Path) -> None:
    data = samples.read(write(tmp_path, b""))
    assert (len(data), data.bad_count) == (0, 0)


def test_equal_seeds_give_equal_samples_and_a_new_one_is_given_out(tmp_path: Path) -> None:
    data = samples.read(write(tmp_path, b'{"a": 1}\n' * 500))
    assert samples.choose(data, 7) == samples.choose(data, 7)
    seeds = {samples.choose(data, None)[0] for _ in range(5)}
    assert len(seeds) == 5
    seed, index = samples.choose(data, None)
    assert samples.choose(data, seed) == (seed, index)
    assert len({samples.choose(data, seed)[1] for seed in range(50)}) > 30


def test_a_missing_file_names_those_beside_it(tmp_path: Path) -> None:
    write(tmp_path, b"")
    with pytest.raises(DataNotFound) as caught:
        samples.find("dta.jsonl", [tmp_path])
    assert caught.value.exit_code == 2
    assert "data.jsonl" in caught.value.mend
    assert str(tmp_path) in caught.value.consequence


def test_files_are_found_in_the_folders_in_order(tmp_path: Path) -> None:
    path = write(tmp_path, b"")
    assert samples.find("data.jsonl", [tmp_path / "nowhere", tmp_path]) == path
    assert samples.find(str(path), []) == path


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, b"{}")

    def refuse(*_args: object, **_kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataUnreadable, match="Permission denied"):
        samples.read(path)


def test_the_sample_data_of_ours_is_sound() -> None:
    for name in ("capitals", "arithmetic"):
        data = samples.read(Path(__file__).parents[3] / "examples" / "data" / f"{name}.jsonl")
        assert data.bad_count == 0
        assert all({"messages", "answer"} <= data.sample(i).data.keys() for i in range(len(data)))
