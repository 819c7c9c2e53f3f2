"""What stage 4 records is what stages 2 and 3 replay."""

from __future__ import annotations

from pathlib import Path

from harness.checks.samples import Sample
from harness.checks.stage4 import keep
from harness.checks.stage4.data import Asked
from harness.checks.stage4.gather import Gathered
from harness.openai_api.recording.exchange import Exchange
from harness.openai_api.recording.store import Recording, Writer
from harness.runs import Redactor
from tests.unit.checks.stage4.rolled import note, returned, rolled


def exchange(path: str, number: int) -> Exchange:
    return Exchange(0, number, "POST", path, b'{"messages": []}', 200, blocks=(b"{}",))


def test_runs_are_numbered_by_sample_and_found_by_their_session(tmp_path: Path) -> None:
    notes = [
        note("began", 1, "c"),
        note("began", 0, "a"),
        note("began", 0, "b"),
        note("began", 1, "d"),
        returned(1.0, 0, "a"),
        returned(0.0, 1, "c"),
        note("raised", 0, "b", error="KeyError"),
    ]
    batch = rolled(asked=Asked("agent", "a", 2, 2), notes=notes)
    calls = [
        ("admin", exchange("/rl/start_session", 1)),
        ("a", exchange("/chat/completions", 1)),
        ("a", exchange("/rl/set_reward", 2)),
        ("c", exchange("/v1/messages", 1)),
        ("a", exchange("/chat/completions", 3)),
    ]
    chosen = [Sample(4, 5, {"answer": "Paris"}), Sample(7, 8, {"answer": "Rome"})]
    folder = tmp_path / "tape"
    keep.record(
        Writer.create(folder, {"group_size": 2, "base_path": "/v1"}, Redactor()), Gathered(batch, calls), chosen
    )
    recording = Recording.open(folder)
    assert recording.runs == (0, 1, 2, 3)
    first = recording.pick(0)
    assert first.sample == {"answer": "Paris"}
    assert [one.path for one in first.exchanges] == ["/v1/chat/completions", "/v1/chat/completions"]
    assert [one.number for one in first.exchanges] == [1, 2]
    assert first.ended is not None
    assert first.ended["reward"]["whole"]["number"] == 1.0
    assert recording.pick(1).ended == {"outcome": "raised KeyError", "reward": None}
    assert [one.path for one in recording.pick(2).exchanges] == ["/v1/messages"]
    assert recording.pick(3).ended is None
