"""What nodes answer comes from where agents run."""

from __future__ import annotations

import gzip

import pytest

from harness.processes.sampling import model


def test_an_answer_that_unpacks_to_far_more_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "LARGEST_UNPACKED", 1_000_000)
    with pytest.raises(ValueError, match="larger than an answer can be"):
        model.unpack(gzip.compress(b" " * 50_000_000))


def test_an_answer_is_read_as_it_was_packed() -> None:
    answer = model.NodeAnswer(host="node", dumps={"rank0.json": b"[]" * 1000})
    assert model.unpack(model.pack(answer)).dumps == answer.dumps
    with pytest.raises(ValueError, match="breaks off"):
        model.unpack(model.pack(answer)[:-9])
