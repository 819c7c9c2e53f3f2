"""What is verl's alone: its reward manager's rewards, its data set's batch, settings that nobody reads; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from harness.agent.rewards import Reward, Value
from harness.agent.source import AgentSource
from harness.checks.findings import Finding
from harness.checks.lint.config import UNKNOWN, Config
from harness.checks.stage4 import tensors
from harness.checks.stage4.data import Rolled

NO_SCORES = "verl then leaves rm_scores out of the batch without a word, and the trainer ends with a KeyError."


def scored(rolled: Rolled) -> Iterator[Finding]:
    """Rewards of a reward function are numbers, and come back as it returned them."""
    given = [Reward.from_dict(note["reward"]) for note in rolled.scored]
    rows = tensors.rows_of(rolled.trajectories)
    if not given and not rows:
        return
    values = [_score(one) for one in given]
    bad = [fault for value in values if (fault := _fault(value))]
    if bad:
        detail, consequence, mend = bad[0]
        yield _finding("fail", f"{len(bad)} of {len(values)}: {detail}", consequence, mend)
        return
    if not rows:
        return
    got = [row.reward for row in rows]
    wanted = [value.number for value in values if value is not None and value.number is not None]
    facts = {"mean": sum(got) / len(got), "min": min(got), "max": max(got)}
    spread = f"mean {facts['mean']:.3f}, from {facts['min']:g} to {facts['max']:g}"
    if not given:
        yield _finding("pass", f"{len(got)} by verl's own functions; {spread}", facts=facts)
    elif len(wanted) == len(got) and Counter(map(_near, wanted)) != Counter(map(_near, got)):
        yield _finding(
            "fail",
            "the rewards in the batch are not those that the function returned",
            "What is trained on isn't what the function says.",
            facts={"returned": sorted(wanted), "batch": sorted(got)},
        )
    else:
        yield _finding("pass", f"{len(got)} as the function returned them; {spread}", facts=facts)


def _score(given: Reward) -> Value | None:
    """The number that verl takes: the value, or ``score`` of a dict; None where a dict has none."""
    return given.items.get("score") if given.is_dict else given.whole


def _fault(value: Value | None) -> tuple[str, str, str] | None:
    if value is None:
        return "a dict without score", "verl's reward manager raises a KeyError.", 'return {"score": reward, …}'
    if value.type == "NoneType":
        return "the function returned nothing (None)", NO_SCORES, "return a float on every path"
    if value.finite is None:
        return f"{value.shown} is a {value.type}, not a number", "verl raises, in a worker.", "return float(reward)"
    if not value.finite:
        return (
            f"{value.shown} ({value.type})",
            "One such reward makes the advantages of its whole group NaN, and with them the update.",
            "return a finite number, 0.0 where there is no answer",
        )
    return None


def _finding(status: Any, detail: str, consequence: str = "", mend: str = "", facts: Any = None) -> Finding:
    return Finding(
        id="verl.rewards",
        title="rewards",
        status=status,
        detail=detail,
        consequence=consequence,
        mend=mend,
        facts=facts or {},
    )


def samples(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:  # noqa: ARG001
    """verl's data set takes the samples as they are, and drops none."""
    told = rolled.event("data")
    if told is None:
        return
    given, kept, put = told["given"], told["kept"], told["put"]
    if kept < given:
        yield Finding(
            id="verl.data",
            title="samples in verl's data set",
            status="warn",
            detail=f"{given - kept} of {given} prompts are longer than data.max_prompt_length and were left out",
            consequence="Training leaves them out as well, without a word but in its log.",
            mend="data.max_prompt_length: more",
        )
    elif put and rolled.asked.kind == "loop":
        yield Finding(
            id="verl.data",
            title="samples in verl's data set",
            status="warn",
            detail=f"put in for the check: {', '.join(put)}",
            consequence="verl's reward manager raises a KeyError for a sample of a training without them.",
            mend='samples with "data_source" and "reward_model": {"ground_truth": …}',
        )
    else:
        also = f"; {', '.join(put)}" if put else ""
        yield Finding(
            id="verl.data", title="samples in verl's data set", status="pass", detail=f"{kept} of {given}{also}"
        )


def unread(config: Config) -> Iterator[Finding]:
    """Settings of the reward where earlier versions had them, which 0.9.1's own trainer doesn't read any more."""
    if config.section("async_training"):
        return  # the fully asynchronous trainer moves them to where they are read
    for old, new in (
        ("custom_reward_function.path", "reward.custom_reward_function.path"),
        ("reward_model.reward_manager", "reward.reward_manager.name"),
    ):
        entry = config.get(old)
        if entry.given and entry.value not in (None, UNKNOWN):
            yield Finding(
                id="verl.reward-unread",
                title="reward function of the configuration",
                status="fail",
                detail=f"line {entry.line}: {old} is where verl 0.9.1 doesn't look: main_ppo reads {new} alone",
                consequence="Training takes verl's own reward for the samples' data_source, or ends where it has none.",
                mend=f"{new}: {entry.value}",
            )


def _near(value: float) -> float:
    """Rewards are float32 in a batch."""
    return float(f"{value:.5g}")
