"""What may be asked of a sampler: samples of its one container, and nothing else."""

from __future__ import annotations

import importlib.util
import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.hang.ways.remote import asked
from harness.processes.sampling.model import SampleRequest, checked

PATH = Path(__file__).resolve().parents[3] / "docker" / "dev" / "sampler.py"
_spec = importlib.util.spec_from_file_location("sampler", PATH)
assert _spec is not None
assert _spec.loader is not None
sampler = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sampler)

CONTAINER = "0123456789abcdef"


def test_what_hang_dump_asks_is_handed_on_with_the_container_it_is_about() -> None:
    request = SampleRequest(pids=[7, 9], match="train", samples=2, gap_seconds=0.5, locals=True, native=True)
    line, seconds = sampler.checked(asked(request).rstrip(), CONTAINER)
    assert checked(SampleRequest, line) == replace(request, within=CONTAINER)
    assert seconds == request.timeout_seconds + sampler.EXTRA_SECONDS


def test_files_code_and_other_containers_are_not_asked_for_in_the_first_place() -> None:
    request = SampleRequest(logs=["/etc/passwd"], within="another", tasks=True)
    assert json.loads(asked(request)) == {}


@pytest.mark.parametrize(
    "asked_for",
    [
        {"logs": ["/etc/passwd"]},
        {"tasks": True},
        {"within": ""},
        {"within": "another"},
        {"command": "id"},
        {"": 1},
        {"pids": 1},
        {"pids": [0]},
        {"pids": [-1]},
        {"pids": [True]},
        {"pids": [1.0]},
        {"pids": ["1"]},
        {"pids": [1 << 40]},
        {"pids": [1] * 3000},
        {"match": 1},
        {"match": "x" * 2000},
        {"native": 1},
        {"everything": "yes"},
        {"samples": 0},
        {"samples": True},
        {"samples": 6},
        {"gap_seconds": -1},
        {"gap_seconds": math.nan},
        {"timeout_seconds": math.inf},
        {"timeout_seconds": 1e9},
        {"dump_seconds": 0},
        {"dump_seconds": None},
        [],
        None,
        "everything",
    ],
)
def test_anything_else_is_refused(asked_for: Any) -> None:
    with pytest.raises(sampler.Refused):
        sampler.checked(json.dumps(asked_for).encode(), CONTAINER)


@pytest.mark.parametrize("line", [b"", b"{", b"\xff\xfe", b"[" * 30_000, b'{"pids": [' * 5_000])
def test_what_is_not_json_is_refused(line: bytes) -> None:
    with pytest.raises(sampler.Refused):
        sampler.checked(line, CONTAINER)


@pytest.mark.parametrize(
    ("sent", "closed"),
    [(b"", True), (b"no end", True), (b"x" * 40_000, False), (b"no end", False)],
    ids=["nothing", "half a line", "a line too long", "silence"],
)
def test_whoever_sends_no_line_is_not_waited_for(sent: bytes, closed: bool) -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, sent)
        if closed:
            os.close(writing)
        with pytest.raises(sampler.Refused):
            sampler._line(reading, sampler.time.monotonic() + 0.05)
    finally:
        os.close(reading)
        if not closed:
            os.close(writing)
