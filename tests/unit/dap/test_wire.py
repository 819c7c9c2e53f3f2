"""Frames of the protocol: whole messages, nothing that never ends."""

from __future__ import annotations

import io

import pytest

from harness.dap.wire import LONGEST, encode, read


def test_there_and_back() -> None:
    messages = [{"seq": 1, "text": "ä→"}, {"seq": 2, "more": ["\r\n\r\n"]}]
    stream = io.BytesIO(b"".join(map(encode, messages)))
    assert [read(stream), read(stream), read(stream)] == [*messages, None]


def test_other_headers_are_passed_over() -> None:
    assert read(io.BytesIO(b"X: 1\r\ncontent-length: 2\r\n\r\n{}")) == {}


@pytest.mark.parametrize("data", [b"Content-Length: 20\r\n\r\n{}", b"Content-Length: 2", b""])
def test_a_stream_that_breaks_off_is_its_end(data: bytes) -> None:
    assert read(io.BytesIO(data)) is None


@pytest.mark.parametrize(
    "data",
    [b"\r\n{}", b"Content-Length: -1\r\n\r\n", b"Content-Length: x\r\n\r\n", b"Content-Length: 2\r\n\r\n[]",
     b"Content-Length: %d\r\n\r\n" % (LONGEST + 1)],
)  # fmt: skip
def test_what_is_no_message(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        read(io.BytesIO(data))
