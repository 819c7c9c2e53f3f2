from __future__ import annotations

import pytest

from harness.openai_api.sse import MAX_PENDING, Decoder, Event

STREAM = b'event: a\ndata: {"x": 1}\n\n: a comment\ndata: two\ndata: lines\n\ndata: [DONE]\n\n'
EVENTS = [Event("a", '{"x": 1}'), Event("", "two\nlines"), Event("", "[DONE]")]


@pytest.mark.parametrize("size", [1, 2, 7, len(STREAM)])
def test_events_are_the_same_however_the_bytes_are_cut(size: int) -> None:
    decoder = Decoder()
    events = [event for at in range(0, len(STREAM), size) for event in decoder.feed(STREAM[at : at + size])]
    assert events == EVENTS


def test_carriage_returns_and_a_missing_space_are_taken() -> None:
    assert Decoder().feed(b"data:x\r\n\r\n") == [Event("", "x")]


def test_a_character_cut_in_two_is_put_together() -> None:
    decoder = Decoder()
    raw = "data: é\n\n".encode()
    assert decoder.feed(raw[:7]) == []
    assert decoder.feed(raw[7:]) == [Event("", "é")]


def test_the_event_that_the_end_cuts_off_is_given_at_the_end() -> None:
    decoder = Decoder()
    assert decoder.feed(b"data: last") == []
    assert decoder.finish() == [Event("", "last")]


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    decoder = Decoder()
    for _ in range(3):
        decoder.feed(b"x" * MAX_PENDING)
    assert len(decoder._pending) <= MAX_PENDING
