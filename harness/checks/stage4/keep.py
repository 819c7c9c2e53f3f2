"""Keeps what stage 4 gathered: raw data in the folder of a run, and the agents' calls as a recording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.checks.samples import Sample
from harness.checks.stage4.data import Rolled
from harness.checks.stage4.doors import as_recorded
from harness.checks.stage4.gather import Gathered
from harness.checks.stage4.reasons import plain
from harness.openai_api.recording.store import Writer
from harness.runs import RunFolder


def keep(folder: RunFolder, gathered: Gathered) -> None:
    """Write what was gathered; a file that has nothing to say is left out."""
    rolled = gathered.rolled
    lines: tuple[tuple[str, list[dict[str, Any]]], ...] = (
        ("events", [event for event in rolled.events if event["event"] != "trajectory"]),
        ("trajectories", rolled.trajectories),
        ("runs", rolled.notes),
        ("engine", [call.as_dict() for call in rolled.engine]),
        ("calls", [{"session": session, **call.as_dict()} for session, call in rolled.agents if call.is_generation]),
    )
    for name, values in lines:
        if values:
            folder.write_lines(f"stage4/{name}.jsonl", values)
    if rolled.log.strip():
        folder.write_text("stage4/areal.log", plain(rolled.log))
    if rolled.verdict is not None:
        folder.write_json("stage4/verdict.json", rolled.verdict)


def numbered(rolled: Rolled) -> dict[str, int]:
    """Session to run: the runs of a sample one after the other, as stages 2 and 3 count them."""
    seen: dict[int, int] = {}
    found: dict[str, int] = {}
    for note in rolled.notes:
        if note["event"] != "began" or note["index"] is None or note["session"] in found:
            continue
        nth = seen.get(note["index"], 0)
        if nth < rolled.asked.group_size:
            found[note["session"]] = note["index"] * rolled.asked.group_size + nth
            seen[note["index"]] = nth + 1
    return found


def record(writer: Writer, gathered: Gathered, chosen: Sequence[Sample]) -> None:
    """Write the agents' calls as a recording that stages 2 and 3 replay."""
    rolled = gathered.rolled
    runs = numbered(rolled)
    ends = {note["session"]: note for note in rolled.notes if note["event"] in ("returned", "raised")}
    counts: dict[int, int] = {}
    for session, run in sorted(runs.items(), key=lambda item: item[1]):
        sample = chosen[run // rolled.asked.group_size]
        writer.begin_run(run, sample.data, group=run // rolled.asked.group_size, line=sample.line)
        for mark, exchange in gathered.exchanges:
            if mark == session and _generates(exchange.path):
                counts[run] = counts.get(run, 0) + 1
                writer.add(as_recorded(exchange, run, counts[run]))
        end = ends.get(session)
        if end is not None:
            outcome = "returned" if end["event"] == "returned" else f"raised {end['error']}"
            writer.end_run(run, outcome, _reward(end))


def _generates(path: str) -> bool:
    return any(path.split("?")[0].endswith(route) for route in ("/chat/completions", "/responses", "/messages"))


def _reward(end: dict[str, Any]) -> Any:
    return end.get("reward")
