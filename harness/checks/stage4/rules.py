"""Judgements on a batch that went through AReaL's controller; pure.

Each rule looks at what was gathered and says at most one thing, or one thing a kind. A rule that has nothing to look
at, because it ended before, says nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from harness.agent.rewards import Reward
from harness.agent.source import AgentSource
from harness.checks.findings import Finding, Place
from harness.checks.reward_rules import judge_reward
from harness.checks.stage4 import tensors
from harness.checks.stage4.data import Rolled
from harness.checks.stage4.reasons import Reason, last_error, reasons

Rule = Callable[[Rolled, AgentSource | None], Iterator[Finding]]

PHASES = {
    "start": "AReaL's program started",
    "import": "AReaL was imported",
    "config": "AReaL read the configuration",
    "workers": "AReaL started its workers",
    "proxy": "AReaL started the proxy of its agents",
    "rollout": "the batch was rolled out",
    "template": "the batch was rolled out",
}
NOT_KEPT = "AReaL leaves it out of the batch without an exception: rollout_batch returns fewer, and training goes on."
WAITS = "Training waits here for ever; no time-out of AReaL's ends it."


def judge(rolled: Rolled, agent: AgentSource | None) -> list[Finding]:
    """All findings on a batch, in the order in which a person wants to read them."""
    return [finding for rule in RULES for finding in rule(rolled, agent)]


def started(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:  # noqa: ARG001
    """AReaL read the configuration and started its controller, its workers and their proxy."""
    versions = rolled.event("versions")
    shown = ", ".join(f"{name} {version}" for name, version in list((versions or {}).items())[2:5])
    if rolled.phase in ("rollout", "template") and not rolled.interrupted:
        yield Finding(
            id="areal.starts",
            title="AReaL starts",
            status="pass",
            detail=f"controller, worker and {'proxy' if rolled.asked.kind == 'agent' else 'engine'} are up ({shown})",
            facts={name: value for name, value in (versions or {}).items() if name not in ("event", "time")},
        )
        return
    if rolled.interrupted:
        return
    why = _why(rolled)
    yield Finding(
        id="areal.starts",
        title="AReaL starts",
        status="fail",
        detail=f"it ended before {PHASES.get(rolled.phase, rolled.phase)}: {why[0]}",
        consequence="Training ends, or waits for its setup_timeout, at the same place.",
        mend=why[1],
        facts={"phase": rolled.phase, "log": _tail(rolled)},
    )


def whole(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:  # noqa: ARG001
    """As many trajectories as samples were asked for."""
    if rolled.phase not in ("rollout", "template") or rolled.interrupted:
        return
    asked = rolled.asked
    batch = rolled.event("batch")
    progress = rolled.event("progress") or {}
    counted = ", ".join(
        f"{progress[name]} {name}" for name in ("accepted", "rejected", "running", "enqueued") if name in progress
    )
    if rolled.stall is not None:
        return  # `stalled` tells it
    if batch is None:
        why = _why(rolled)
        yield Finding(
            id="areal.batch",
            title="trajectories",
            status="fail",
            detail=f"the batch didn't come ({counted or 'nothing was let in'}): {why[0]}",
            consequence="Training would end or wait here.",
            mend=why[1],
            facts={"progress": progress, "log": _tail(rolled)},
        )
        return
    got = len(rolled.trajectories)
    facts = {"asked": asked.prompts, "got": got, "seconds": round(batch["seconds"], 3), "progress": progress}
    if got >= asked.prompts:
        yield Finding(
            id="areal.batch",
            title="trajectories",
            status="pass",
            detail=f"{got} of {asked.prompts}, {asked.group_size} runs each, in {batch['seconds']:.1f} s",
            facts=facts,
        )
        return
    why = _why(rolled)
    yield Finding(
        id="areal.batch",
        title="trajectories",
        status="fail",
        detail=f"{got} of {asked.prompts} came back ({counted}): {why[0]}",
        consequence=NOT_KEPT,
        mend=why[1],
        facts={**facts, "log": _tail(rolled)},
    )


def failures(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:
    """Each kind of failure of the agent's own runs, with the line."""
    kinds: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for note in rolled.notes:
        if note["event"] in ("raised", "made"):
            own = _own(note, agent)
            where = (note["error"], own.file if own else "", own.line if own else 0)
            kinds.setdefault(where, []).append(note)
    for (error, _, _), notes in sorted(kinds.items(), key=lambda item: -len(item[1])):
        first = notes[0]
        made = first["event"] == "made"
        what = (
            "the agent can't be made in AReaL's worker" if made else f"{len(notes)} of {rolled.asked.runs} runs raised"
        )
        group = "" if made or rolled.asked.group_size == 1 else " One run that fails takes its whole group with it."
        yield Finding(
            id="areal.agent-made" if made else "areal.agent-raises",
            title="agent in AReaL's worker",
            status="fail",
            detail=f"{what}: {error}: {first['text'].splitlines()[0][:200] if first['text'] else ''}".rstrip(": "),
            consequence=NOT_KEPT + group,
            place=_own(first, agent),
            stack=tuple(_place(frame) for frame in first["frames"] if _is_own(frame, agent)),
            facts={"runs": len(notes), "index": first.get("index")},
        )


def importable(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:
    """A worker can import the agent by its name, as in training."""
    found = [note for note in rolled.notes if note["event"] == "found"]
    if not found or agent is None:
        return
    if found[0]["importable"]:  # once it is loaded, every later look finds it
        yield Finding(
            id="areal.importable",
            title="agent found by name",
            status="pass",
            detail=f"AReaL's worker imports {found[0]['module']} by its name",
        )
        return
    folder = str(agent.path.parent) if agent.path is not None else "its folder"
    yield Finding(
        id="areal.importable",
        title="agent found by name",
        status="warn",
        detail=f"AReaL's worker doesn't find the module {found[0]['module']}; it was loaded from its file here",
        consequence="Training names an agent by its module: “Failed to import workflow from string”, for every run.",
        mend=f"start training in {folder}, or put that on PYTHONPATH in rollout.scheduling_spec[0].env_vars",
    )


def rewards(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:
    """Rewards are of a type that AReaL keeps, and come back as the agent returned them."""
    returned = rolled.returned
    if rolled.asked.kind == "rlvr":
        yield from _of_function(tensors.rows_of(rolled.trajectories))
    if not returned:
        return
    given = [Reward.from_dict(note["reward"]) for note in returned]
    ids = {call.reply.id for _, call in rolled.agents if call.reply is not None}
    kinds = Counter(one.whole.type for one in given)
    judged = [judge_reward(one, ids) for one in given]
    bad = [one for one in judged if one[0] == "fail"]
    if bad:
        _, detail, consequence, mend = bad[0]
        yield Finding(
            id="areal.rewards",
            title="rewards",
            status="fail",
            detail=f"{len(bad)} of {len(returned)} runs: {detail}",
            consequence=consequence,
            mend=mend,
            place=_return_place(agent),
            facts={"types": dict(kinds)},
        )
        return
    lost = [reason for reason in reasons(rolled.log) if reason.code == "reward-id"]
    if lost:
        yield Finding(
            id="areal.rewards",
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


def _of_function(rows: list[tensors.Row]) -> Iterator[Finding]:
    """Rewards of a reward function; AReaL itself turns what it returns into a number."""
    if not rows:
        return
    got = [row.reward for row in rows]
    bad = [value for value in got if not math.isfinite(value)]
    yield Finding(
        id="areal.rewards",
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


def _as_returned(rolled: Rolled, rows: list[tensors.Row], given: list[float]) -> Finding:
    got = [row.reward for row in rows]
    spread = _spread(got)
    one_a_run = len(given) == len(rolled.returned) == len(got)
    if one_a_run and Counter(_near(value) for value in given) != Counter(_near(value) for value in got):
        return Finding(
            id="areal.rewards",
            title="rewards",
            status="fail",
            detail="the trajectories' rewards are not those that the agent returned",
            consequence="What is trained on isn't what the agent says.",
            facts={"returned": sorted(given), "trajectories": sorted(got)},
        )
    same = "as the agent returned them" if one_a_run else f"of {len(rolled.returned)} runs on {len(got)} rows"
    return Finding(
        id="areal.rewards",
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
            id="areal.tensors",
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
    detail = f"{len(rows)} rows of up to {longest} tokens; " + ", ".join(
        f"{name} {first[name]['dtype']}" for name in ("input_ids", "logprobs", "loss_mask", "rewards")
    )
    yield Finding(id="areal.tensors", title="tensors", status="pass", detail=detail, facts={"first": first})


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
                id="areal.logprobs",
                title="log-probs",
                status="fail",
                detail=f"{row.name}: {what}",
                consequence="Off-policy corrections take the difference to the trainer's: the loss becomes NaN.",
                mend="make check STAGE=1   # does the server give log-probs?",
            )
            return
    count = sum(sum(row.mask) for row in rows)
    yield Finding(
        id="areal.logprobs", title="log-probs", status="pass", detail=f"{count} tokens, all finite, none above 0"
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
            id="areal.loss-mask" if mask else "areal.round-trip",
            title="loss mask" if mask else "token by token",
            status="fail",
            detail=f"{row.name}: {fault}" + (f"; so are {len(wrong) - 1} more" if wrong[1:] else ""),
            consequence="The model is trained on other tokens than it generated.",
            mend="" if mask else "rollout.tokenizer_path: the tokenizer of the model that is served",
        )
        return
    count = sum(sum(row.mask) for row in rows)
    yield Finding(
        id="areal.round-trip",
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
    pairs = [
        (row, by_answer[ends])
        for row in rows
        for ends in by_answer
        if row.generated[-len(ends) :] == ends and len(row.generated) == len(ends)
    ]
    # A character may be cut at the token limit, and each side shows that in its own way.
    pairs = [(row, text) for row, text in pairs if "\ufffd" not in row.answer + text]
    other = [(row, text) for row, text in pairs if row.answer.split() != text.split()]
    if not pairs:
        return
    if len(other) * 2 > len(pairs):
        row, text = other[0]
        yield Finding(
            id="areal.tokenizer",
            title="tokenizer",
            status="fail",
            detail=f"{len(other)} of {len(pairs)} answers: the server read “{text.strip()[:60]}”, "
            f"AReaL's tokenizer “{row.answer.strip()[:60]}”",
            consequence="The agent was given another text than the model wrote, and prompts reach the model as noise.",
            mend="rollout.tokenizer_path: the tokenizer of the model that is served",
        )
        return
    yield Finding(
        id="areal.tokenizer",
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
    # A parser takes reasoning and tool calls out of the text, so each is looked for within what was generated.
    lost = [text for text in said if text and not any(text in " ".join(row.answer.split()) for row in rows)]
    kept = len(said) - len(lost)
    if lost:
        yield Finding(
            id="areal.conversation",
            title="decoded",
            status="fail",
            detail=f"{len(lost)} of {len(said)} answers that the agent got are in no trajectory: “{lost[0][:80]}”",
            consequence="The reward is for a text that isn't trained on.",
            mend="rollout.tokenizer_path: the tokenizer of the model that is served",
        )
        return
    yield Finding(
        id="areal.conversation",
        title="decoded",
        status="pass",
        detail=f"all {kept} answers that the agent got stand in the trajectories",
    )


def versions(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:  # noqa: ARG001
    """Each generated token carries the version of the weights that made it; nothing was trained here, so 0."""
    rows = tensors.rows_of(rolled.trajectories)
    if not rows:
        return
    for row in rows:
        used = {version for version, use in zip(row.versions, row.mask, strict=True) if use}
        rest = {version for version, use in zip(row.versions, row.mask, strict=True) if not use}
        if used - {0} or rest - {-1, 0}:
            yield Finding(
                id="areal.versions",
                title="versions",
                status="fail",
                detail=f"{row.name}: generated tokens have {sorted(used)}, others {sorted(rest)}",
                consequence="Staleness is counted from these; wrong ones let in what is too old.",
            )
            return
    yield Finding(
        id="areal.versions",
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
            id="areal.template",
            title="chat template",
            status="warn",
            detail="the tokenizer has none",
            consequence="A chat can't be turned into tokens.",
            mend="rollout.tokenizer_path: an instruction-tuned model's tokenizer",
        )
    elif event["prompt_kept"] and event["answer_kept"]:
        yield Finding(
            id="areal.template",
            title="chat template",
            status="pass",
            detail="append-only: later turns leave the tokens of earlier ones as they are",
        )
    else:
        changed = "the prompt" if not event["prompt_kept"] else "an answer"
        yield Finding(
            id="areal.template",
            title="chat template",
            status="warn",
            detail=f"not append-only: a later turn changes the tokens of {changed} before it",
            consequence="With export_style concat a run of several turns is trained on tokens that nobody generated.",
            mend="rollout.agent.export_style: individual, or chat_template_type: concat",
            facts={"first": event["first"], "later": event["later"]},
        )


def stalled(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:  # noqa: ARG001
    """Nothing moved any more: what the hang dump says of it."""
    if rolled.stall is None:
        return
    progress = rolled.event("progress") or {}
    verdict = rolled.verdict or {}
    cause = str(verdict.get("cause") or "")
    named = f"; the hang dump says: {cause}" if cause not in ("", "unknown", "none") else ""
    counted = ", ".join(
        f"{progress[name]} {name}" for name in ("enqueued", "running", "accepted", "rejected") if name in progress
    )
    if rolled.stall == "capacity":
        config = rolled.event("config") or {}
        off, consumer = config.get("max_head_offpolicyness", "?"), config.get("consumer_batch_size", "?")
        yield Finding(
            id="areal.stalls",
            title="the batch comes to an end",
            status="fail",
            detail=f"nobody is let in any more (capacity {progress.get('capacity')}): {counted}{named}",
            consequence=f"({off} + version + 1) × {consumer} rollouts are let in before weights are updated, and the "
            f"batch is larger. {WAITS}",
            mend="consumer_batch_size: ${train_dataset.batch_size}   # in rollout:",
            facts={"progress": progress, "cause": cause, "evidence": verdict.get("evidence", [])},
        )
        return
    yield Finding(
        id="areal.stalls",
        title="the batch comes to an end",
        status="fail",
        detail=f"nothing moved any more: {counted}{named}",
        consequence="A rollout waits for it until rollout.request_timeout, an hour by default.",
        mend="\n".join(verdict.get("next", [])[:2]) or "make check STAGE=2   # where does one run wait?",
        facts={"progress": progress, "cause": cause, "evidence": verdict.get("evidence", [])},
    )


def calls(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:  # noqa: ARG001
    """The agents' calls to AReaL's proxy are answered."""
    made = [call for _, call in rolled.agents if call.is_generation]
    if not made:
        if rolled.returned:
            yield Finding(
                id="areal.calls",
                title="calls to AReaL's proxy",
                status="fail",
                detail="no run made one",
                consequence="AReaL has nothing to train on: “No interactions in session”, and drops the trajectory.",
                mend="call the model at the base_url that run() gets",
            )
        return
    failed = [call for call in made if not call.ok and not call.abandoned]
    by_status = Counter(str(call.status or call.failure) for call in failed)
    if not failed:
        yield Finding(
            id="areal.calls", title="calls to AReaL's proxy", status="pass", detail=f"{len(made)}, all answered"
        )
        return
    statuses = ", ".join(f"{count} × {status}" for status, count in by_status.most_common(3))
    paths = {call.path for call in failed if call.status == 404}
    mend = ""
    if any(path.startswith("/v1/") for path in paths):
        mend = "AReaL's base_url has no /v1, and its routes neither: don't append it"
    yield Finding(
        id="areal.calls",
        title="calls to AReaL's proxy",
        status="fail" if len(failed) == len(made) else "warn",
        detail=f"{len(failed)} of {len(made)} failed: {statuses}" + (f" ({sorted(paths)[0]})" if paths else ""),
        consequence="A failed call is made again by the SDK or lost; either costs time in every run.",
        mend=mend,
    )


def left(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:  # noqa: ARG001
    """What AReaL left behind; it was ended."""
    if not rolled.left:
        return
    yield Finding(
        id="areal.left",
        title="nothing left behind",
        status="warn",
        detail=f"AReaL left {len(rolled.left)} processes, which were ended: {rolled.left[0][:100]}",
        consequence="They hold their ports, and on GPUs their memory, until somebody ends them.",
    )


RULES: tuple[Rule, ...] = (
    started,
    whole,
    stalled,
    importable,
    failures,
    calls,
    rewards,
    shapes,
    logprobs,
    round_trip,
    tokenizer,
    conversation,
    versions,
    template,
    left,
)


def _why(rolled: Rolled) -> tuple[str, str]:
    """The worker's own reason and what mends it; else AReaL's exception; else what is known."""
    found = reasons(rolled.log)
    failed = rolled.event("failed")
    about = _first(found, rolled.phase)
    if about is not None:
        return about.text, about.mend
    for note in rolled.returned:
        status, detail, _, mend = judge_reward(Reward.from_dict(note["reward"]), set())
        if status == "fail" and not note["reward"]["is_dict"]:
            return detail, mend
    raised = next((note for note in rolled.notes if note["event"] in ("raised", "made")), None)
    if raised is not None:
        return f"the agent raised {raised['error']}: {raised['text'][:160]}", ""
    if failed is not None:
        known = reasons(failed["text"])
        if known:
            return known[0].text, known[0].mend
        return f"{failed['type']}: {' '.join(failed['text'].split())[:300]}", ""
    if rolled.cut:
        return "the time was over", "TIMEOUT=600   # where it is only slow"
    if error := last_error(rolled.log):
        return error, ""
    if rolled.exit_status:
        return f"AReaL's program ended with {rolled.exit_status}", ""
    return "no worker says why", "make check STAGE=2   # one run alone"


def _first(found: list[Reason], phase: str) -> Reason | None:
    """The reason that counts: what ends a start goes before what comes of it."""
    order = sorted(found, key=lambda reason: not reason.fatal) if phase in ("workers", "proxy") else found
    return order[0] if order else None


def _tail(rolled: Rolled, lines: int = 40) -> list[str]:
    from harness.checks.stage4.reasons import plain

    return [line for line in plain(rolled.log).splitlines() if line.strip()][-lines:]


def _own(note: dict[str, Any], agent: AgentSource | None) -> Place | None:
    own = [frame for frame in note["frames"] if _is_own(frame, agent)]
    return _place(own[-1]) if own else None


def _is_own(frame: dict[str, Any], agent: AgentSource | None) -> bool:
    if agent is None or agent.path is None:
        return False
    folder = str(agent.path.parent)
    return frame["file"].startswith(folder + "/") and "/site-packages/" not in frame["file"]


def _place(frame: dict[str, Any]) -> Place:
    return Place(file=frame["file"], line=frame["line"], function=frame["function"], source=frame["source"])


def _return_place(agent: AgentSource | None) -> Place | None:
    if agent is not None and agent.path is not None and agent.run is not None and len(agent.run.returns) == 1:
        return Place(file=str(agent.path), line=agent.run.returns[0], function="run")
    return None


def _near(value: float) -> float:
    """Rewards are float32 in a trajectory."""
    return float(f"{value:.5g}")
