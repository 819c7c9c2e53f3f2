"""What came back of it: rewards, tensors, tokens, masks, versions; pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from harness.agent.rewards import Reward
from harness.agent.source import AgentSource
from harness.checks.findings import Finding, Place
from harness.checks.reward_rules import judge_reward
from harness.checks.stage4 import tensors, verl_rules
from harness.checks.stage4.data import Rolled
from harness.checks.stage4.reasons import reasons_of
from harness.checks.stage4.rows import Row


def _id(rolled: Rolled, subject: str) -> str:
    return rolled.asked.framework.id(subject)


def rewards(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:
    """Rewards are of a type that AReaL keeps, and come back as the agent returned them."""
    returned = rolled.returned
    if rolled.asked.kind == "rlvr":
        yield from _of_function(rolled, tensors.rows_of(rolled.trajectories))
    if rolled.asked.kind == "loop":
        yield from verl_rules.scored(rolled)
    if not returned:
        return
    given = [Reward.from_dict(note["reward"]) for note in returned]
    ids = {call.reply.id for _, call in rolled.agents if call.reply is not None}
    kinds = Counter(one.whole.type for one in given)
    judged = [judge_reward(one, ids) for one in given]
    bad = [one for one in judged if one[0] == "fail"]
    if bad:
        _, detail, consequence, mend = bad[0]
        if rolled.asked.framework.key != "areal":
            consequence = rolled.asked.framework.lost
        yield Finding(
            id=_id(rolled, "rewards"),
            title="rewards",
            status="fail",
            detail=f"{len(bad)} of {len(returned)} runs: {detail}",
            consequence=consequence,
            mend=mend,
            place=_return_place(agent),
            facts={"types": dict(kinds)},
        )
        return
    lost = [reason for reason in reasons_of(rolled.asked.framework, rolled.log) if reason.code == "reward-id"]
    if lost:
        yield Finding(
            id=_id(rolled, "rewards"),
            title="rewards",
            status="fail",
            detail=lost[0].text,
            consequence="These runs are trained on with a reward of 0.",
            mend=lost[0].mend,
            place=_return_place(agent),
        )
        return
    rows = tensors.rows_of(rolled.trajectories)
    if rows:
        numbers = [one.whole.number for one in given if one.whole.number is not None and not one.is_dict]
        yield _as_returned(rolled, rows, numbers)


def _of_function(rolled: Rolled, rows: list[Row]) -> Iterator[Finding]:
    """Rewards of a reward function; AReaL itself turns what it returns into a number."""
    if not rows:
        return
    got = [row.reward for row in rows]
    bad = [value for value in got if not math.isfinite(value)]
    yield Finding(
        id=_id(rolled, "rewards"),
        title="rewards",
        status="fail" if bad else "pass",
        detail=f"{len(bad)} of {len(got)} are no finite numbers" if bad else f"{len(got)}; {_spread(got)}",
        consequence="One such reward makes the advantages of its whole group NaN, and with them the update."
        if bad
        else "",
        facts={"rewards": got[:200]},
    )


def _spread(got: list[float]) -> str:
    return f"mean {sum(got) / len(got):.3f}, from {min(got):g} to {max(got):g}"


def _as_returned(rolled: Rolled, rows: list[Row], given: list[float]) -> Finding:
    got = [row.reward for row in rows]
    spread = _spread(got)
    one_a_run = len(given) == len(rolled.returned) == len(got)
    if one_a_run and Counter(_near(value) for value in given) != Counter(_near(value) for value in got):
        return Finding(
            id=_id(rolled, "rewards"),
            title="rewards",
            status="fail",
            detail="the trajectories' rewards are not those that the agent returned",
            consequence="What is trained on isn't what the agent says.",
            facts={"returned": sorted(given), "trajectories": sorted(got)},
        )
    same = "as the agent returned them" if one_a_run else f"of {len(rolled.returned)} runs on {len(got)} rows"
    return Finding(
        id=_id(rolled, "rewards"),
        title="rewards",
        status="pass",
        detail=f"{len(got)} {same}; {spread}",
        facts={"mean": sum(got) / len(got), "min": min(got), "max": max(got)},
    )


def shapes(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:  # noqa: ARG001
    """The trajectories hold the tensors that a trainer takes."""
    if not rolled.trajectories:
        return
    wrong = [(number, fault) for number, one in enumerate(rolled.trajectories) for fault in tensors.faults(one)]
    if wrong:
        yield Finding(
            id=_id(rolled, "tensors"),
            title="tensors",
            status="fail",
            detail=f"trajectory {wrong[0][0]}: {wrong[0][1]}" + (f"; and {len(wrong) - 1} more" if wrong[1:] else ""),
            consequence="The trainer's loss fails on it, or counts what it shouldn't.",
            facts={"faults": [text for _, text in wrong[:20]]},
        )
        return
    rows = tensors.rows_of(rolled.trajectories)
    longest = max((len(row.ids) for row in rows), default=0)
    first = rolled.trajectories[0]["tensors"]
    shown = [name for name in tensors.SHOWN if name in first]
    detail = f"{len(rows)} rows of up to {longest} tokens; " + ", ".join(
        f"{name} {first[name]['dtype']}" for name in shown
    )
    yield Finding(id=_id(rolled, "tensors"), title="tensors", status="pass", detail=detail, facts={"first": first})


def logprobs(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:  # noqa: ARG001
    """Log-probs of what was generated are finite and none above 0."""
    rows = tensors.rows_of(rolled.trajectories)
    if not rows:
        return
    for row in rows:
        used = [(place, value) for place, (value, use) in enumerate(zip(row.logprobs, row.mask, strict=True)) if use]
        bad = [(place, value) for place, value in used if not math.isfinite(value) or value > 1e-4]
        if bad or not used:
            what = f"that of token {bad[0][0]} is {bad[0][1]}" if bad else "no token of it counts as generated"
            yield Finding(
                id=_id(rolled, "logprobs"),
                title="log-probs",
                status="fail",
                detail=f"{row.name}: {what}",
                consequence="Off-policy corrections take the difference to the trainer's: the loss becomes NaN.",
                mend="make check STAGE=1   # does the server give log-probs?",
            )
            return
    count = sum(sum(row.mask) for row in rows)
    yield Finding(
        id=_id(rolled, "logprobs"),
        title="log-probs",
        status="pass",
        detail=f"{count} tokens, all finite, none above 0",
    )


def round_trip(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:  # noqa: ARG001
    """What is trained on is, token by token, what the server was asked and answered."""
    rows = tensors.rows_of(rolled.trajectories)
    generations = [one for call in rolled.engine if (one := tensors.generation(call)) is not None]
    if not rows or not generations:
        return
    wrong = [(row, fault) for row in rows if (fault := tensors.not_generated(row, generations))]
    if wrong:
        row, fault = wrong[0]
        mask = "loss mask" in fault
        yield Finding(
            id=_id(rolled, "loss-mask" if mask else "round-trip"),
            title="loss mask" if mask else "token by token",
            status="fail",
            detail=f"{row.name}: {fault}" + (f"; so are {len(wrong) - 1} more" if wrong[1:] else ""),
            consequence="The model is trained on other tokens than it generated.",
            mend="" if mask else f"{rolled.asked.framework.tokenizer}: the tokenizer of the model that is served",
        )
        return
    count = sum(sum(row.mask) for row in rows)
    yield Finding(
        id=_id(rolled, "round-trip"),
        title="token by token",
        status="pass",
        detail=f"{len(rows)} rows are prompt and answer of a call to the server; "
        f"{count} generated tokens count, no other",
    )


def tokenizer(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:  # noqa: ARG001
    """AReaL's tokenizer reads tokens as the server does."""
    rows = tensors.rows_of(rolled.trajectories)
    by_answer: dict[tuple[int, ...], str] = {}
    for call in rolled.engine:
        one = tensors.generation(call)
        if one is not None and one.text:
            by_answer[one.answer] = one.text
    pairs = [(row, by_answer[answer]) for row in rows if (answer := row.generated) in by_answer]
    # A character may be cut at the token limit, and each side shows that in its own way.
    pairs = [(row, text) for row, text in pairs if "\ufffd" not in row.answer + text]
    # With skip_special_tokens off the server leaves them in, all but perhaps the one that ends the answer.
    other = [
        (row, text)
        for row, text in pairs
        if row.answer.split() != text.split() and not (text.strip() and row.spelled.strip().startswith(text.strip()))
    ]
    if not pairs:
        return
    if len(other) * 2 > len(pairs):
        row, text = other[0]
        yield Finding(
            id=_id(rolled, "tokenizer"),
            title="tokenizer",
            status="fail",
            detail=f"{len(other)} of {len(pairs)} answers: the server read “{text.strip()[:60]}”, "
            f"{rolled.asked.framework.name}'s tokenizer “{row.answer.strip()[:60]}”",
            consequence="The agent was given another text than the model wrote, and prompts reach the model as noise.",
            mend=f"{rolled.asked.framework.tokenizer}: the tokenizer of the model that is served",
        )
        return
    yield Finding(
        id=_id(rolled, "tokenizer"),
        title="tokenizer",
        status="pass",
        detail=f"reads {len(pairs) - len(other)} of {len(pairs)} answers as the server does",
    )


def conversation(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:  # noqa: ARG001
    """What is trained on, decoded, is what the agent read."""
    rows = tensors.rows_of(rolled.trajectories)
    answers = [call.reply.text for _, call in rolled.agents if call.is_generation and call.reply is not None]
    if not rows or not answers:
        return
    said = [" ".join(text.split()) for text in answers]
    # A parser takes reasoning and tool calls out of the text, so each is looked for within what was generated; and a
    # model may write a special token in the midst of it, which some servers leave in the text and others take out.
    generated = {" ".join(text.split()) for row in rows for text in (row.answer, row.spelled)}
    lost = [text for text in said if text and not any(text in whole for whole in generated)]
    kept = len(said) - len(lost)
    if lost:
        yield Finding(
            id=_id(rolled, "conversation"),
            title="decoded",
            status="fail",
            detail=f"{len(lost)} of {len(said)} answers that the agent got are in no trajectory: “{lost[0][:80]}”",
            consequence="The reward is for a text that isn't trained on.",
            mend=f"{rolled.asked.framework.tokenizer}: the tokenizer of the model that is served",
        )
        return
    yield Finding(
        id=_id(rolled, "conversation"),
        title="decoded",
        status="pass",
        detail=f"all {kept} answers that the agent got stand in the trajectories",
    )


def versions(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:  # noqa: ARG001
    """Each generated token carries the version of the weights that made it; nothing was trained here, so 0."""
    rows = tensors.rows_of(rolled.trajectories)
    if not rows or not all(row.versions for row in rows):
        return
    for row in rows:
        used = {version for version, use in zip(row.versions, row.mask, strict=True) if use}
        rest = {version for version, use in zip(row.versions, row.mask, strict=True) if not use}
        if used - {0} or rest - {-1, 0}:
            yield Finding(
                id=_id(rolled, "versions"),
                title="versions",
                status="fail",
                detail=f"{row.name}: generated tokens have {sorted(used)}, others {sorted(rest)}",
                consequence="Staleness is counted from these; wrong ones let in what is too old.",
            )
            return
    yield Finding(
        id=_id(rolled, "versions"),
        title="versions",
        status="pass",
        detail="0 for all generated tokens, as before any training",
    )


def template(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:  # noqa: ARG001
    """A conversation's tokens stay as they are when turns are added."""
    event = rolled.event("template")
    if event is None:
        return
    if not event["there"]:
        yield Finding(
            id=_id(rolled, "template"),
            title="chat template",
            status="warn",
            detail="the tokenizer has none",
            consequence="A chat can't be turned into tokens.",
            mend=f"{rolled.asked.framework.tokenizer}: an instruction-tuned model's tokenizer",
        )
    elif event["prompt_kept"] and event["answer_kept"]:
        yield Finding(
            id=_id(rolled, "template"),
            title="chat template",
            status="pass",
            detail="append-only: later turns leave the tokens of earlier ones as they are",
        )
    else:
        changed = "the prompt" if not event["prompt_kept"] else "an answer"
        yield Finding(
            id=_id(rolled, "template"),
            title="chat template",
            status="warn",
            detail=f"not append-only: a later turn changes the tokens of {changed} before it",
            consequence=rolled.asked.framework.rewritten,
            mend=rolled.asked.framework.for_rewritten,
            facts={"first": event["first"], "later": event["later"]},
        )


def _return_place(agent: AgentSource | None) -> Place | None:
    if agent is not None and agent.path is not None and agent.run is not None and len(agent.run.returns) == 1:
        return Place(file=str(agent.path), line=agent.run.returns[0], function="run")
    return None


def _near(value: float) -> float:
    """Rewards are float32 in a trajectory."""
    return float(f"{value:.5g}")
