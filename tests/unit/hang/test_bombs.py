"""Small files that stand for endless much are left out with a sentence, in a moment and without the memory."""

from __future__ import annotations

import gzip
import io
import pickle
import tarfile
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.hang.readers import read, sources
from tests.unit.hang.build import pyspy, pyspy_text


def refused(path: Path) -> str:
    with pytest.raises(UsageError) as refusal:
        read(str(path))
    return refusal.value.consequence


def test_a_pickle_that_asks_for_a_table_of_billions(tmp_path: Path) -> None:
    # "Remember this as number 2³¹ - 1": the table of what is remembered would take 32 GiB.
    (tmp_path / "trace_0").write_bytes(b"\x80\x02X\x07\x00\x00\x00entriesr\xff\xff\xff\x7f.")
    assert "not a plain pickle" in refused(tmp_path)


def test_a_pickle_that_says_to_be_long(tmp_path: Path) -> None:
    (tmp_path / "trace_0").write_bytes(b"\x80\x05X\x07\x00\x00\x00entries\x96" + (2**45).to_bytes(8, "little") + b".")
    assert "not a plain pickle" in refused(tmp_path)


def test_a_pickle_that_unfolds_without_end(tmp_path: Path) -> None:
    laughs: list[object] = ["ha"] * 10
    for _ in range(40):
        laughs = [laughs] * 10
    entry = {"profiling_name": laughs, "input_sizes": laughs, "process_group": laughs, "state": laughs}
    dump = {"version": "2.5", "entries": [entry], "pg_config": {"0": {"ranks": laughs}}}
    (tmp_path / "trace_0").write_bytes(pickle.dumps(dump))
    assert "unfolds to far more" in refused(tmp_path)


def test_json_in_json_in_json(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text('[{"thread_id":1,"frames":' + "[" * 200_000)
    assert "no dump" in refused(tmp_path)


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bound, reached sooner."""
    monkeypatch.setattr(sources, "MOST_UNPACKED", 2_000_000)


@pytest.mark.usefixtures("little")
def test_a_gigabyte_in_a_megabyte(tmp_path: Path) -> None:
    path = tmp_path / "rank0.txt.gz"
    path.write_bytes(gzip.compress(b"\n" * 10_000_000))
    assert path.stat().st_size < 20_000
    assert "unpacks to more than" in refused(path)


@pytest.mark.usefixtures("little")
def test_what_comes_before_it_in_an_archive_is_read(tmp_path: Path) -> None:
    path = tmp_path / "dump.tar.gz"
    good = pyspy_text(pyspy("f a.py:1")).encode()
    with tarfile.open(path, "w:gz") as archive:
        for name, content in (("rank0.json", good), ("rank1.txt", b"\n" * 10_000_000), ("rank2.json", good)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    found = read(str(path))
    assert len(found.processes) == 1
    assert any("unpacks to more than" in note for note in found.notes)


def test_no_member_of_an_archive_leads_anywhere(tmp_path: Path) -> None:
    """Links are no stacks, whatever they lead to; nothing is written, whatever a member is called."""
    (tmp_path / "secret.json").write_text(pyspy_text(pyspy("secret secret.py:1")))
    path = tmp_path / "dump.tar"
    with tarfile.open(path, "w") as archive:
        for kind, name, to in (
            (tarfile.SYMTYPE, "rank1.json", str(tmp_path / "secret.json")),
            (tarfile.LNKTYPE, "rank2.json", "../secret.json"),
            (tarfile.CHRTYPE, "rank3.json", ""),
            (tarfile.FIFOTYPE, "rank4.json", ""),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, to
            archive.addfile(member)
        content = pyspy_text(pyspy("f a.py:1")).encode()
        member = tarfile.TarInfo("../../rank0.json")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    before = sorted(tmp_path.parent.rglob("*"))
    found = read(str(path))
    assert [one.id for one in found.processes] == ["rank0"]
    assert sorted(tmp_path.parent.rglob("*")) == before
