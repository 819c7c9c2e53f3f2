"""Keeps the raw data of stage 3 in the folder of a run; see ``stage3_data`` for its shape."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel

from harness.checks.stage3 import Done
from harness.runs import RunFolder


def keep(folder: RunFolder, done: Done) -> None:
    """Write what was gathered; a file that has nothing to say is left out."""
    rows, load = done.rows, done.load
    if rows is None or load is None:
        return
    for name, values in (("runs", rows.runs), ("calls", rows.calls), ("bare", rows.bare)):
        if values:
            folder.write_lines(f"stage3/{name}.jsonl", _plain(values))
    folder.write_json("stage3/load.json", rows.data.model_dump(mode="json"))
    folder.write_lines("stage3/events.jsonl", load.trace.events)
    for name, output in (("stdout", load.trace.output), ("stderr", load.trace.errors)):
        if output.total:
            folder.write_text(f"stage3/{name}.txt", output.text())
    if load.trace.stacks is not None:
        folder.write_json("stage3/stacks.json", load.trace.stacks)


def _plain(values: Iterable[BaseModel]) -> Iterable[dict[str, object]]:
    return (value.model_dump(mode="json") for value in values)
