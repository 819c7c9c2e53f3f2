"""Judgement on what a run returned; pure."""

from __future__ import annotations

from typing import Any

from harness.agent.rewards import Reward, Value
from harness.agent.source import AgentSource
from harness.checks.both import NOT_KEPT
from harness.checks.findings import Finding, Place, Status
from harness.checks.gather import Gathered

AWAIT = "return await …   # what an async function returns is a coroutine until it is awaited"
POISON = "One such reward makes the advantages of its whole group NaN, and with them the update."


def reward(run: Gathered, agent: AgentSource) -> Finding | None:
    """The reward is of a type that frameworks keep, and a number."""
    returned = run.trace.event("returned")
    if returned is None:
        return None
    given = Reward.from_dict(returned["reward"])
    place = _return_place(returned["place"], agent)
    ids = {call.reply.id for call in run.calls if call.reply is not None}
    status, detail, consequence, mend = judge_reward(given, ids)
    return Finding(
        id="run.reward",
        title="reward",
        status=status,
        detail=detail,
        consequence=consequence,
        mend=mend,
        place=place,
        facts={"type": given.whole.type, "value": given.whole.number, "shown": given.whole.shown},
    )


def judge_reward(given: Reward, ids: set[str]) -> tuple[Status, str, str, str]:
    """Status, detail, consequence and mend of what a run returned.

    Args:
        ids: of the completions that the run was answered with.
    """
    whole = given.whole
    if given.is_dict:
        return _judge_reward_dict(given, ids)
    if whole.is_float:
        if not whole.finite:
            return (
                "fail",
                f"{whole.shown} ({whole.type})",
                POISON,
                "return a finite number, 0.0 where there is no answer",
            )
        return "pass", f"{whole.shown} ({whole.type})", "", ""
    if whole.type == "NoneType":
        return "fail", "run returned nothing (None)", NOT_KEPT, "return a float on every path through run"
    if whole.type == "coroutine":
        return "fail", "a coroutine, which nobody has awaited, is not a reward", NOT_KEPT, AWAIT
    if whole.finite is not None:
        return "fail", f"{whole.shown} is {_an(whole.type)}, not a float", NOT_KEPT, "return float(reward)"
    return (
        "fail",
        f"{whole.shown} is {_an(whole.type)}, not a reward",
        NOT_KEPT,
        "return a float, or {completion_id: float}",
    )


def _judge_reward_dict(given: Reward, ids: set[str]) -> tuple[Status, str, str, str]:
    if not given.items:
        return "fail", "an empty dict", "No call gets a reward.", "return {completion_id: reward} or one float"
    if given.keys != ("str",):
        return "fail", f"keys are of type {', '.join(given.keys)}", NOT_KEPT, "use the completion's id as key"
    unknown = [key for key in given.items if key not in ids]
    not_numbers = {key: value for key, value in given.items.items() if not _is_number(value)}
    shown = ", ".join(f"{key[-12:]}: {value.shown}" for key, value in list(given.items.items())[:3])
    if not_numbers:
        key, value = next(iter(not_numbers.items()))
        return "fail", f"the reward of {key} is {value.shown} ({value.type})", POISON, "give each call a finite number"
    if unknown:
        return (
            "fail",
            f"{len(unknown)} of {len(given.items)} keys are no completion's id: {unknown[0]}",
            "AReaL answers 400 for each in a worker's log and keeps the trajectory without that reward.",
            "use completion.id of the call that the reward is for",
        )
    return "pass", f"{len(given.items)} of {len(ids)} calls: {shown}", "", ""


def _is_number(value: Value) -> bool:
    return value.finite is True


def _return_place(frame: dict[str, Any] | None, agent: AgentSource) -> Place | None:
    if frame is not None:
        return Place(file=frame["file"], line=frame["line"], function=frame["function"], source=frame["source"])
    if agent.path is not None and agent.run is not None and len(agent.run.returns) == 1:
        return Place(file=str(agent.path), line=agent.run.returns[0], function="run")
    return None


def _an(name: str) -> str:
    return f"{'an' if name[:1] in 'aeiou' else 'a'} {name}"
