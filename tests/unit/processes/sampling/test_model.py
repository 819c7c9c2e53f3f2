"""Requests and answers as they travel."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from harness.processes.sampling.model import NodeAnswer, ProcessEntry, SampleEntry, SampleRequest, pack, unpack


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


@pytest.mark.parametrize("fields", [{"match": "("}, {"samples": 0}, {"gap_seconds": -1}, {"unknown": 1}])
def test_a_request_is_checked_before_anything_is_done(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        SampleRequest.model_validate(fields)
