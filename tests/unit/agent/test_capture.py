from __future__ import annotations

from harness.agent.capture import KEPT_HEAD, KEPT_TAIL, Lines, Output


def test_little_is_kept_whole() -> None:
    output = Output()
    output.add(b"hello ")
    output.add("wörld\n".encode())
    assert output.text() == "hello wörld\n"
    assert (output.total, output.dropped) == (13, 0)


def test_of_a_flood_the_beginning_and_the_end_are_kept() -> None:
    output = Output()
    output.add(b"first line\n")
    for _ in range(1000):
        output.add(b"x" * 9999 + b"\n")
    output.add(b"last line\n")
    assert output.total == 11 + 10_000_000 + 10
    assert len(output.head) == KEPT_HEAD
    assert len(output.tail) <= 2 * KEPT_TAIL
    assert output.text().startswith("first line\n")
    assert "bytes not kept" in output.text()
    assert output.last_lines(1) == ["last line"]


def test_lines_are_put_together_from_chunks() -> None:
    taken: list[bytes] = []
    lines = Lines(taken.append)
    for chunk in (b"on", b"e\ntw", b"o\nthr"):
        lines.data_received(chunk)
    assert taken == [b"one", b"two"]
    assert not lines.ended.is_set()
    lines.connection_lost(None)
    assert lines.ended.is_set()
