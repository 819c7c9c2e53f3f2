from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.errors import NoSpace, RecordingExists, RecordingUnusable
from harness.openai_api.recording import store
from harness.openai_api.recording.exchange import Exchange
from harness.openai_api.recording.store import Recording, Writer, read_run, run_file
from harness.runs import Redactor

SECRET = "sk-0123456789abcdef0123456789"


def exchange(run: int = 0, number: int = 1, **more: Any) -> Exchange:
    fields: dict[str, Any] = {
        "request": b'{"a": 1}',
        "status": 200,
        "headers": (("content-type", "application/json"),),
        "blocks": (b'{"b": 2}',),
        "offsets": (0.5,),
    }
    return Exchange(run, number, "POST", "/v1/chat/completions", **{**fields, **more})


def writer(folder: Path) -> Writer:
    return Writer.create(folder, {"model": "m", "base_path": "/v1"}, Redactor([SECRET]))


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    writing = writer(tmp_path / "new" / "tape")
    exchanges = [
        exchange(137, 2, blocks=(b"\xff\x00", "ü\u2028".encode()), end="cut", why="broke off"),
        exchange(137, 1, status=None, headers=(), blocks=(), offsets=(), end="unreachable", why="nobody there"),
        exchange(137, 3, in_process=True, clipped=True, end="abandoned", why="hung up"),
    ]
    writing.begin_run(137, {"question": "?"}, line=4)
    for one in exchanges:
        writing.add(one)
    writing.end_run(137, "returned", {"whole": 1.0})
    writing.check()
    recording = Recording.open(tmp_path / "new" / "tape")
    assert (recording.runs, recording.model, recording.base_path) == ((137,), "m", "/v1")
    run = recording.pick(137)
    assert run.exchanges == tuple(sorted(exchanges, key=lambda one: one.number))
    assert (run.sample, run.about, run.notes) == ({"question": "?"}, {"line": 4}, ())
    assert run.ended == {"outcome": "returned", "reward": {"whole": 1.0}}


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    writer(tmp_path / "tape")
    before = (tmp_path / "tape" / store.META).read_text()
    with pytest.raises(RecordingExists, match="isn't empty"):
        writer(tmp_path / "tape")
    assert (tmp_path / "tape" / store.META).read_text() == before


def test_no_secret_is_written(tmp_path: Path) -> None:
    writing = writer(tmp_path)
    writing.begin_run(0, {"note": f"my key {SECRET}"})
    body = json.dumps({"messages": [{"content": f"use {SECRET}"}], "api_key": "a-plain-word-here"}).encode()
    pieces = [f'data: {{"choices": [{{"delta": {{"content": "{part}"}}}}]}}\n\n'.encode() for part in SECRET]
    stream = (("content-type", "text/event-stream"),)
    writing.add(exchange(number=1, request=body, blocks=(f'{{"text": "{SECRET}"}}'.encode(),)))
    writing.add(exchange(number=2, headers=stream, blocks=tuple(pieces)))
    writing.end_run(0, "returned", {"shown": SECRET})
    text = run_file(tmp_path, 0).read_text()
    assert SECRET not in text
    assert "a-plain-word-here" not in text
    said = ""
    for block in read_run(tmp_path, 0).exchanges[1].blocks:
        said += json.loads(block.removeprefix(b"data: "))["choices"][0]["delta"]["content"]
    assert said == "[redacted]"


def test_what_holds_no_secret_keeps_its_bytes(tmp_path: Path) -> None:
    writing = writer(tmp_path)
    blocks = (
        b'data:  {"a":1 ,"token": "a long token, no secret"}\r\n\r\n',
        b": ping\n\n",
        b"event: x\ndata: no json\n\n",
    )
    plain = exchange(headers=(("content-type", "text/event-stream"),), blocks=blocks, request=b'{ "b":2}')
    writing.add(plain)
    assert read_run(tmp_path, 0).exchanges == (plain,)


@pytest.mark.parametrize("kept", range(0, 400, 7))
def test_a_file_cut_anywhere_is_read_as_far_as_it_goes(tmp_path: Path, kept: int) -> None:
    writing = writer(tmp_path)
    writing.begin_run(0, {"a": 1})
    for number in range(1, 4):
        writing.add(exchange(number=number))
    path = run_file(tmp_path, 0)
    whole = path.read_bytes()
    path.write_bytes(whole[:kept])
    run = read_run(tmp_path, 0)
    lines = whole[:kept].count(b"\n")
    assert len(run.exchanges) == max(lines - 1, 0)
    half = not whole[:kept].endswith(b"\n") and kept > 0
    assert (run.notes == ("the last line of run-00000.jsonl is half-written and was left out",)) is half
    assert run.ended is None


def test_lines_that_say_nothing_usable_are_named(tmp_path: Path) -> None:
    writing = writer(tmp_path)
    writing.add(exchange())
    good = run_file(tmp_path, 0).read_text()
    call = json.loads(good)["call"]
    bad: list[Any] = [
        "[1, 2]",
        "no json",
        "9" * 5000,
        "[" * 100_000,
        {"call": 5},
        {"call": {**call, "run": 1}},
        {"call": {**call, "run": -1}},
        {"call": {**call, "status": 99}},
        {"call": {**call, "status": "200"}},
        {"call": {**call, "path": "/a\r\nx: y"}},
        {"call": {**call, "path": "http://example.com/"}},
        {"call": {**call, "method": "GET /x"}},
        {"call": {**call, "headers": [["content-type", "a\r\nset-cookie: b"]]}},
        {"call": {**call, "headers": [["set-cookie", "b"]]}},
        {"call": {**call, "headers": [["transfer-encoding", "chunked"]]}},
        {"call": {**call, "headers": "content-type"}},
        {"call": {**call, "blocks": [{"base64": "?"}]}},
        {"call": {**call, "blocks": [7]}},
        {"call": {**call, "offsets": ["x"]}},
        {"call": {**call, "number": 10**30}},
        {"call": {**call, "end": "__class__"}},
        {"sample": "x"},
        {"ended": []},
    ]
    lines = [each if isinstance(each, str) else json.dumps(each) for each in bad]
    run_file(tmp_path, 0).write_text("\n".join([*lines, good]))
    run = read_run(tmp_path, 0)
    assert len(run.exchanges) == 1
    assert [note.split(" of ")[0] for note in run.notes] == [f"line {n}" for n in range(1, len(bad) + 1)]
    assert all(len(note) < 300 for note in run.notes)


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        (None, "is no recording"),
        ("{", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[]", "format None"),
        ('{"drydock_recording": 2}', "format 2, and this Drydock reads 1"),
        ('{"drydock_recording": 1}', "has no runs"),
    ],
)
def test_what_is_no_recording_is_told(tmp_path: Path, meta: str | None, words: str) -> None:
    if meta is not None:
        (tmp_path / store.META).write_text(meta)
    with pytest.raises(RecordingUnusable, match=words):
        Recording.open(tmp_path)


def test_pipes_large_files_and_links_out_of_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer(tmp_path).add(exchange())
    os.mkfifo(run_file(tmp_path, 1))
    with pytest.raises(RecordingUnusable, match="it is no file"):
        read_run(tmp_path, 1)
    monkeypatch.setattr(store, "MAX_FILE", 10)
    with pytest.raises(RecordingUnusable, match="larger than"):
        read_run(tmp_path, 0)


def test_a_run_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    writing = writer(tmp_path)
    for run in (3, 5, 7, 9, 11, 13, 511):
        writing.begin_run(run, {})
    recording = Recording.open(tmp_path)
    assert recording.pick(None).run == 3
    with pytest.raises(RecordingUnusable, match="has no run 4") as error:
        recording.pick(4)
    assert error.value.mend == "RUN=3   # there are: 3, 5, 7, 9, 11 … 511"


def test_a_hostile_base_path_is_not_taken(tmp_path: Path) -> None:
    writer(tmp_path).begin_run(0, {})
    for path in (5, "v1", "/v1\r\nx: y", None):
        (tmp_path / store.META).write_text(json.dumps({"drydock_recording": 1, "base_path": path, "model": {}}))
        recording = Recording.open(tmp_path)
        assert (recording.base_path, recording.model) == ("/v1", "")


def test_a_full_disk_is_told_once_the_run_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writing = writer(tmp_path)

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    writing.add(exchange())
    monkeypatch.undo()
    writing.add(exchange(number=2))
    with pytest.raises(NoSpace):
        writing.check()
