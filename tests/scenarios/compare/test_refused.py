"""What can't be compared as it was typed ends with a sentence and the exit code of its kind."""

from __future__ import annotations

import resource
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.compare.checkpoint import Lines, Store
from harness.errors import Busy, DrydockError, RunsNotWritable
from tests.support.comparing import begin, compare, wait_for_lines
from tests.support.two_sides import Sides, fake_python, serving


def _a_file(folder: Path) -> str:
    (folder / "occupied").write_text("somebody's")
    return str(folder / "occupied")


@pytest.mark.parametrize("place", ["/proc/nobody", _a_file], ids=["no folder can be made", "a file is there"])
def test_runs_that_cannot_be_kept(place: str | Callable[[Path], str], tmp_path: Path) -> None:
    runs = place if isinstance(place, str) else place(tmp_path)
    with serving(Sides()) as url:
        done = compare(url, tmp_path, runs=Path(runs))
    assert (done.code, f"results can't be written into {runs}" in done.stderr) == (3, True), str(done)
    assert "set RUNS= to a folder of your own" in done.stderr


def test_a_disk_that_is_full_in_the_middle_keeps_what_is_whole(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "samples.jsonl")
    lines.add({"id": 1})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(DrydockError) as raised:
            lines.add({"id": 2, "text": "x" * 200})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert isinstance(raised.value, RunsNotWritable)
    assert 2 not in lines
    assert list(Lines(tmp_path / "samples.jsonl").ids()) == [1]


def test_the_same_comparison_twice_at_once(tmp_path: Path) -> None:
    """The second leaves the first alone; once that is through there is nothing in the way any more."""
    sides = Sides(stands_after=20)
    more = ("--hits", "60", "--in-flight", "2")
    with serving(sides) as url:
        first = begin(url, tmp_path, *more)
        wait_for_lines(tmp_path / "runs", 10)
        second = compare(url, tmp_path, *more)
        assert (second.code, "the same comparison is going on already" in second.stderr) == (3, True), str(second)
        first.kill()
        first.communicate()
        sides.stands_after = 0
        answer = compare(url, tmp_path, *more).ok().json()
    assert answer["continued"] >= 10
    store = Store(tmp_path / "store")
    with pytest.raises(Busy):
        Store(tmp_path / "store")
    store.close()
    Store(tmp_path / "store").close()


@pytest.mark.parametrize("program", ["ls", "echo", "true"])
def test_an_interpreter_that_is_none(program: str, tmp_path: Path) -> None:
    found = shutil.which(program)
    assert found is not None
    with serving(Sides()) as url:
        done = compare(url, tmp_path, python=Path(found))
    assert (done.code, found in done.stderr) == (3, True), str(done)
    assert "COMPARE_PYTHON=" in done.stderr


def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    with serving(Sides()) as url:
        done = compare(url, tmp_path, python=fake_python(tmp_path, error=["device", "this torch (2) sees no GPU"]))
    assert (done.code, "DEVICE=cpu" in done.stderr) == (3, True), str(done)


def test_nothing_that_can_be_compared_with(tmp_path: Path) -> None:
    with serving(Sides()) as url:
        done = compare(url, tmp_path, "--against", "nobody")
    assert (done.code, "AGAINST=nobody is neither a way, nor a server" in done.stderr) == (2, True), str(done)
    assert "AGAINST=batch, cache, http://HOST:PORT/v1" in done.stderr


def test_data_of_another_encoding(tmp_path: Path) -> None:
    data = tmp_path / "it's.jsonl"
    data.write_bytes('{"prompt": "Grüße"}\n'.encode("latin-1"))
    with serving(Sides()) as url:
        done = compare(url, tmp_path, "--data", str(data))
        assert (done.code, "isn't UTF-8" in done.stderr) == (3, True), str(done)
        said = next(line for line in done.stderr.splitlines() if "iconv" in line)
        command = said.partition("→ ")[2].replace("ENCODING", "LATIN1").replace("OTHER", "mended")
        subprocess.run(command, shell=True, check=True, cwd=tmp_path)
        assert compare(url, tmp_path, "--data", str(tmp_path / "mended.jsonl")).ok().json()["samples"] == 10
