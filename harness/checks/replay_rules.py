"""Judgements on a run that was replayed: was it the same as when it was recorded? Pure."""

from __future__ import annotations

import re
from typing import Any

from harness.checks.findings import Finding
from harness.checks.gather import Gathered
from harness.checks.tapes import outcome, reward
from harness.openai_api.recording.store import RecordedRun

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
    return Finding(
        id="replay.recording",
        title="recording",
        status="warn",
        detail="; ".join(notes[:3]) + (f"; and {len(notes) - 3} more" if len(notes) > 3 else ""),
        consequence="What is missing there can't be replayed.",
        facts={"notes": notes},
    )


def calls(run: Gathered, recorded: RecordedRun) -> Finding:
    """Whether the agent made the calls that were recorded."""
    given, there = len(run.calls) - _answered_misses(run), len(recorded.exchanges)
    facts = {"recorded": there, "replayed": given, "missed": [miss.as_dict() for miss in run.missed]}
    if run.missed:
        first = run.missed[0]
        more = f" (and {len(run.missed) - 1} more)" if len(run.missed) > 1 else ""
        return Finding(
            id="replay.calls",
            title="calls as recorded",
            status="fail",
            detail=first.text.replace("\n", "\n    ") + more,
            consequence="Nobody knows what the model would have said; the agent got HTTP 400.",
            mend="undo what changes the call, or record again: RECORD=FOLDER",
            facts=facts,
        )
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
        consequence="" if same else "The model's answers are the same, so the agent has changed, or depends on chance.",
        facts=facts,
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
