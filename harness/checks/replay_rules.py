"""Judgements on a run that was replayed: was it the same as when it was recorded? Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from harness.checks.findings import Finding, Status
from harness.checks.gather import Gathered
from harness.checks.tapes import outcome, outcome_of, reward
from harness.openai_api.recording.matching import Miss
from harness.openai_api.recording.store import RecordedRun

_CHANGED = "The model's answers are the same, so the agent has changed, or depends on chance."
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")


def judge(run: Gathered, recorded: RecordedRun) -> list[Finding]:
    """All findings on a replay."""
    found = [whole(recorded), calls(run, recorded), same_end(run, recorded)]
    return [finding for finding in found if finding is not None]


def whole(recorded: RecordedRun) -> Finding | None:
    """Whether the recording could be read to its end."""
    clipped = [exchange.number for exchange in recorded.exchanges if exchange.clipped]
    notes = [*recorded.notes]
    notes += [f"the answer to call {number} was too long to be kept whole" for number in clipped]
    if recorded.ended is None:
        notes.append("it breaks off before the run's end")
    if not notes:
        return None
    return _not_whole(notes)


def _not_whole(notes: list[str]) -> Finding:
    return Finding(
        id="replay.recording",
        title="recording",
        status="warn",
        detail="; ".join(notes[:3]) + (f"; and {len(notes) - 3} more" if len(notes) > 3 else ""),
        consequence="What is missing there can't be replayed.",
        facts={"notes": notes[:100]},
    )


def calls(run: Gathered, recorded: RecordedRun) -> Finding:
    """Whether the agent made the calls that were recorded."""
    given, there = len(run.calls) - _answered_misses(run), len(recorded.exchanges)
    facts = {"recorded": there, "replayed": given, "missed": [miss.as_dict() for miss in run.missed]}
    if run.missed:
        return _not_recorded(run.missed, facts)
    if given < there:
        return Finding(
            id="replay.calls",
            title="calls as recorded",
            status="warn",
            detail=f"{given} of {there} recorded calls were made",
            consequence="The agent took another way than when it was recorded.",
            facts=facts,
        )
    detail = f"{given} of {there}, none asked a server"
    return Finding(id="replay.calls", title="calls as recorded", status="pass", detail=detail, facts=facts)


def _not_recorded(missed: Sequence[Miss], facts: dict[str, Any]) -> Finding:
    more = f" (and {len(missed) - 1} more)" if len(missed) > 1 else ""
    return Finding(
        id="replay.calls",
        title="calls as recorded",
        status="fail",
        detail=missed[0].text.replace("\n", "\n    ") + more,
        consequence="Nobody knows what the model would have said; the agent got HTTP 400.",
        mend="undo what changes the call, or record again: RECORD=FOLDER",
        facts=facts,
    )


def same_end(run: Gathered, recorded: RecordedRun) -> Finding | None:
    """Whether the run ended as it did when it was recorded, with the same reward."""
    if recorded.ended is None:
        return None
    before, now = recorded.ended.get("outcome"), outcome(run.trace)
    one, other = recorded.ended.get("reward"), reward(run.trace)
    facts = {"recorded": recorded.ended, "replayed": {"outcome": now, "reward": other}}
    same = before == now and _essence(one) == _essence(other)
    return Finding(
        id="replay.reward",
        title="reward as recorded",
        status="pass" if same else "warn",
        detail=_told(before, one) if same else f"{_told(now, other)}; recorded was {_told(before, one)}",
        consequence="" if same else _CHANGED,
        facts=facts,
    )


def judge_many(
    rows: Sequence[dict[str, Any]], missed: Sequence[Miss], recorded: Sequence[RecordedRun]
) -> list[Finding]:
    """All findings on a replay of many runs.

    Args:
        rows: how each run ended, as its process said it.
        missed: calls that were not recorded.
        recorded: the runs as they were recorded.
    """
    return [*filter(None, [_whole_many(recorded)]), _calls_many(missed), _ends_many(rows, recorded)]


def _whole_many(recorded: Sequence[RecordedRun]) -> Finding | None:
    notes = [note for run in recorded for note in run.notes]
    open_ends = sum(run.ended is None for run in recorded)
    if open_ends:
        notes.append(f"{open_ends} of {len(recorded)} runs break off before their end")
    return _not_whole(notes) if notes else None


def _calls_many(missed: Sequence[Miss]) -> Finding:
    facts = {"missed": [miss.as_dict() for miss in missed[:100]]}
    if not missed:
        return Finding(
            id="replay.calls", title="calls as recorded", status="pass", detail="none asked a server", facts=facts
        )
    return _not_recorded(missed, facts)


def _ends_many(rows: Sequence[dict[str, Any]], recorded: Sequence[RecordedRun]) -> Finding:
    ended = {run.run: run.ended for run in recorded if run.ended is not None}
    compared = [row for row in rows if row["run"] in ended]
    other = [
        row["run"]
        for row in compared
        if outcome_of(row) != ended[row["run"]].get("outcome")
        or _essence(row.get("reward")) != _essence(ended[row["run"]].get("reward"))
    ]
    if not other:
        detail = f"{len(compared)} of {len(recorded)} runs ended as recorded, with the same reward"
        status: Status = "pass" if len(compared) == len(recorded) else "warn"
        return Finding(id="replay.reward", title="reward as recorded", status=status, detail=detail)
    some = ", ".join(map(str, sorted(other)[:8]))
    return Finding(
        id="replay.reward",
        title="reward as recorded",
        status="warn",
        detail=f"{len(other)} of {len(compared)} runs ended differently or with another reward: run {some}",
        consequence=_CHANGED,
        mend=f"make check STAGE=2 REPLAY=FOLDER RUN={min(other)}   # one of them, step by step",
        facts={"runs": sorted(other)},
    )


def _answered_misses(run: Gathered) -> int:
    """Calls in the list that got only our word that they were not recorded; those inside the process aren't in it."""
    return sum(
        isinstance(call.response, dict)
        and isinstance(error := call.response.get("error"), dict)
        and error.get("type") == "drydock_not_recorded"
        for call in run.calls
    )


def _told(end: Any, value: Any) -> str:
    if isinstance(value, dict) and isinstance(whole := value.get("whole"), dict):
        return str(whole.get("shown"))[:200]
    return str(end)[:200]


def _essence(value: Any) -> Any:
    """A reward without what differs from process to process: addresses in a text of its own."""
    if isinstance(value, dict):
        return {key: _essence(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_essence(item) for item in value]
    return _ADDRESS.sub("0x", value) if isinstance(value, str) else value
