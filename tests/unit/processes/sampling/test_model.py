"""Requests and answers as they travel."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys

import pytest

from harness.processes.sampling.model import (
    NodeAnswer,
    ProcessEntry,
    SampleEntry,
    SampleRequest,
    checked,
    pack,
    plain,
    unpack,
)


def test_an_answer_arrives_as_it_was_sent() -> None:
    answer = NodeAnswer(
        host="node1",
        boot_id="b",
        processes=[ProcessEntry(pid=7, samples=[SampleEntry(file="7.json", at=0.5)])],
        dumps={"7.json": b"[]", "trace_0": b"\x80\x04\xff\x00"},
    )
    assert unpack(pack(answer)) == answer


@pytest.mark.parametrize("data", [b"", b"ssh: connection refused\n", pack(NodeAnswer(host="x"))[:-9], b"\x1f\x8b\x08"])
def test_what_is_no_whole_answer_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="no answer"):
        unpack(data)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"match": "("}, "^not a regular expression: "),
        ({"samples": 0}, "^samples: .*greater than or equal to 1"),
        ({"gap_seconds": -1}, "^gap_seconds: .*greater than or equal to 0"),
        ({"dump_seconds": 0}, "^dump_seconds: .*greater than 0"),
        ({"unknown": 1}, "^unknown: "),
        ({"pids": [1, "x"]}, r"^pids\.1: .*integer"),
    ],
)
def test_a_request_is_checked_before_anything_is_done(fields: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        checked(SampleRequest, fields)
    with pytest.raises(ValueError, match=reason):
        checked(SampleRequest, json.dumps(fields))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"processes": [{"pid": 1}, {"pid": "x"}]}, r"processes\.1\.pid: .*integer"),
        ({"processes": [{"samples": [{"at": "soon"}]}]}, r"processes\.0\.samples\.0\.at: .*number"),
        ({"dumps": {"7.json": "*"}}, r"dumps\.7\.json: .*base64"),
    ],
)
def test_an_answer_of_another_form_is_refused_and_says_where(fields: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=f"no answer.*{reason}"):
        unpack(gzip.compress(json.dumps(fields).encode()))


def test_what_a_later_version_adds_is_left_out() -> None:
    fields = {"new": 1, "processes": [{"pid": 7, "new": 2, "samples": [{"new": 3}]}]}
    assert unpack(gzip.compress(json.dumps(fields).encode())) == NodeAnswer(
        processes=[ProcessEntry(pid=7, samples=[SampleEntry()])]
    )


def test_a_request_says_only_what_is_asked() -> None:
    request = SampleRequest(pids=[1, 2], match="x|y", samples=3, within="c", logs=["/a/*"])
    assert plain(request, frozenset({"within", "logs"})) == {"pids": [1, 2], "match": "x|y", "samples": 3}
    assert checked(SampleRequest, json.dumps(plain(request))) == request


@pytest.mark.parametrize(
    "modules",
    [
        "harness.processes.sampling.take",
        "harness.cli.main, harness.cli.hang_dump, harness.hang.ways.here, harness.hang.collect, harness.hang.decide",
    ],
)
def test_a_dump_starts_without_what_only_checks_strangers_or_prints(modules: str) -> None:
    code = f"import {modules}, sys; sys.exit(bool({{'pydantic', 'rich'}} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
