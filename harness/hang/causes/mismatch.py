"""Causes that lie in what ranks call together: other operations, another number of steps, another order of groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.hang.causes.finding import Cause, Finding, named, say
from harness.hang.grouping import divergence, names
from harness.hang.groups import Group, count, ids, minority
from harness.hang.scene import Scene
from harness.hang.waits import COLLECTIVE, COMMUNICATION, P2P, RUNNING, phases_of

CAUSES = (
    Cause(
        "collective-mismatch",
        title="ranks are in different collectives",
        means="The same group is used for different calls at once; none of them can end.",
        elsewhere="Where the ranks' ways part, not in the call that waits.",
        next=(
            (
                "export TORCH_DISTRIBUTED_DEBUG=DETAIL   # before the next start: names both sides at the first wrong "
                "call"
            ),
            "compare what decides the way at the line where the stacks part",
        ),
        apart={
            "uneven-steps": (
                "print the loop's length on each rank before it starts; equal lengths mean a branch inside it"
            ),
        },
    ),
    Cause(
        "uneven-steps",
        title="ranks run different numbers of steps",
        means="Some have left a loop of collectives that the others are still in.",
        elsewhere=(
            "In what decides the number of steps on each rank: length of the data, dynamic batches, a sampler without "
            "drop_last, requests per server."
        ),
        next=(
            "print the number of batches or micro-batches per rank before the loop",
            "drop_last=True, a max over ranks, or join() for uneven inputs",
        ),
    ),
    Cause(
        "rank-conditional",
        title="one rank calls a collective that the others don't",
        means="A collective stands under a condition that is true on rank 0 only.",
        elsewhere="Above the call on rank 0: `if rank == 0`, is_main_process, or a progress bar that only rank 0 has.",
        next=("search above the call on {who} for rank, is_main_process, is_local_main_process, tqdm",),
    ),
    Cause(
        "cross-group",
        title="two groups wait for each other",
        means="One side waits in group A for somebody who waits in group B for the first.",
        elsewhere="In the order in which two groups are used: it must be the same everywhere, streams included.",
        next=(
            (
                "export TORCH_FR_BUFFER_SIZE=2000   # before the next start: the last operations of each group on each "
                "rank"
            ),
            "finish (wait for) the operations of one group before using the other",
        ),
    ),
)

_BARRIERS = frozenset({"barrier", "monitored_barrier"})
_ASIDE = frozenset({"evaluation", "checkpoint"})


@dataclass
class _Meeting:
    """Ranks that wait in calls that don't fit together.

    Attributes:
        odd: those apart from a clear majority, ``rest`` the others; both hold all of ``everyone``.
        callers: the functions of own code that made the calls.
        lessened: taken off scores where something else explains the picture better.
    """

    everyone: list[Group]
    odd: list[Group]
    rest: list[Group]
    operations: set[str]
    callers: set[object]
    evidence: list[str]
    lessened: float


def collectives(scene: Scene) -> Iterable[Finding]:
    """Ranks wait in different collectives, or in the same one from different places."""
    meeting = _meeting(scene)
    if meeting is None:
        return
    # One function, two calls: a branch. A barrier there is more often what comes after a loop.
    branch = len(meeting.operations) > 1 and len(meeting.callers) == 1 and not meeting.operations & _BARRIERS
    score = (0.88 if branch else 0.72) - meeting.lessened
    yield Finding("collective-mismatch", score, named(meeting.odd), meeting.evidence)
    yield from _uneven(meeting, score)
    yield from _rank_conditional(meeting)
    yield from _cross_group(scene, meeting, score)
    if all("checkpoint" in group.phases for group in meeting.everyone):
        yield Finding("checkpoint-skew", score - 0.1, named(meeting.odd), meeting.evidence)


def _meeting(scene: Scene) -> _Meeting | None:
    joined = [group for group in scene.joined if "cleanup" not in group.phases]
    reducing = [group for group in scene.off if group.reducing and not group.moved] if scene.joined else []
    together = [group for group in joined if group.kind in COLLECTIVE] + reducing
    pairing = [group for group in joined if group.kind in P2P]
    spots = {group.wait.spot for group in together}
    if len(spots) < 2 and not (together and pairing):
        return None
    everyone = together + pairing
    odd = minority(everyone, lambda group: group.wait.spot)
    evidence = [f"{say(group)}." for group in everyone[:4]]
    parting = divergence(everyone[0].wait.clean, everyone[-1].wait.clean)
    if parting is not None and parting[0] != parting[1]:
        one, other = parting
        evidence.append(f"Their ways part in {one.name} ({one.file}), at line {one.line} and line {other.line}.")
    lessened = 0.0
    # Stages of a pipeline often wait for those whose collective doesn't end: then that is the thing to explain.
    if count(pairing) > 1 and len(spots) < 2:
        lessened += 0.2
    if any(not group.idle and group not in reducing for group in scene.off):
        lessened += 0.08
    return _Meeting(
        everyone=everyone,
        odd=odd,
        rest=[group for group in everyone if group not in odd],
        operations={group.wait.operation for group in everyone},
        callers={(group.wait.own[0].function, group.wait.own[0].file) if group.wait.own else () for group in everyone},
        evidence=evidence,
        lessened=lessened,
    )


def _uneven(meeting: _Meeting, mismatch: float) -> Iterable[Finding]:
    """Some have left a loop that the others are still in."""
    everyone, odd = meeting.everyone, meeting.odd
    dummy = [group for group in everyone if "dummy" in group.phases]
    inside = [group for group in everyone if "step-layer" in group.phases or group.reducing]
    outside = [group for group in everyone if group not in inside]
    final = [group for group in everyone if group.wait.operation in _BARRIERS]
    unfinished = [group for group in everyone if group not in final]
    if dummy and len(dummy) < len(everyone):
        company = f"{names(ids(dummy))} only keeps the others company."
        yield Finding("uneven-steps", mismatch + 0.04, named(dummy), [*meeting.evidence, company])
    elif inside and outside:
        yield Finding("uneven-steps", 0.75 - meeting.lessened, named(odd) or named(outside), meeting.evidence)
    elif final and unfinished:
        done = f"{names(ids(final))} may be done with the loop."
        alone = named(final) if all(group.kind in P2P for group in unfinished) else []
        score = 0.7 - meeting.lessened / 2
        if len({group.wait.spot for group in unfinished}) > 1:
            score -= 0.15  # a loop that some have left doesn't say why the others in it don't meet
        yield Finding("uneven-steps", score, named(odd) or alone, [*meeting.evidence, done])
    elif odd:
        yield Finding("uneven-steps", 0.5, named(odd), meeting.evidence)


def _rank_conditional(meeting: _Meeting) -> Iterable[Finding]:
    """Exactly rank 0 is in a collective of its own."""
    if ids(meeting.odd) != ["rank0"]:
        return
    evidence = [*meeting.evidence, "It is exactly rank 0 that stands apart."]
    if len(meeting.callers) < 2:
        # The same function: a branch, or an extra call before a barrier that the others have reached.
        if all(group.wait.operation in _BARRIERS for group in meeting.rest):
            yield Finding("rank-conditional", 0.715 - meeting.lessened, ["rank0"], evidence)
        return
    if _parts_aside(meeting) and all(group.wait.operation in _BARRIERS for group in meeting.rest):
        # Nobody trains in a function that saves or evaluates, so it is no loop that the others have left.
        yield Finding("rank-conditional", 0.84 - meeting.lessened, ["rank0"], evidence)
        return
    aside = any(group.phases & _ASIDE for group in meeting.odd)
    aside = aside and not all(group.phases & _ASIDE for group in meeting.rest)
    yield Finding("rank-conditional", (0.8 if aside else 0.7) - meeting.lessened, ["rank0"], evidence)


def _parts_aside(meeting: _Meeting) -> bool:
    """Whether the ways part in a function that saves or evaluates, the one apart at an earlier line."""
    parting = (
        divergence(meeting.odd[0].wait.clean, meeting.rest[0].wait.clean) if meeting.odd and meeting.rest else None
    )
    return parting is not None and bool(phases_of(parting[0]) & _ASIDE) and parting[0].line < parting[1].line


def _cross_group(scene: Scene, meeting: _Meeting, mismatch: float) -> Iterable[Finding]:
    """Two groups, two orders."""
    foreign = [group for group in scene.others if group.kind in COMMUNICATION and group.role != "child"]
    if foreign and meeting.odd:
        outside = f"And outside the ranks: {say(foreign)}."
        yield Finding("cross-group", 0.8 - meeting.lessened, named(meeting.odd), [*meeting.evidence, outside])
    elif len({group.wait.spot for group in meeting.everyone}) > 2 and (handing := _handing_over(meeting)):
        # Weights go in a group of their own. Two calls are one mistake in one group; three are a chain of waits.
        others = [group for group in meeting.everyone if group not in handing]
        apart = f"Handing weights over: {say(handing)}. Elsewhere: {say(others)}."
        yield Finding("cross-group", mismatch + 0.02, [], [*meeting.evidence, apart])
    elif len(meeting.operations) == 1 and not any("step-layer" in group.phases for group in meeting.everyone):
        yield Finding("cross-group", mismatch - 0.06, [], meeting.evidence)


def _handing_over(meeting: _Meeting) -> list[Group]:
    """Some that hand weights over while others don't."""
    handing = [group for group in meeting.everyone if "weight-sync" in group.phases]
    return handing if len(handing) < len(meeting.everyone) else []


def two_threads(scene: Scene) -> Iterable[Finding]:
    """Two threads of one process are in collectives: nothing keeps their order the same on all ranks."""
    both = [(group, wait) for group in scene.joined for wait in group.standing.others if wait.kind in COLLECTIVE]
    if not both or any(group.moved for group in scene.joined):
        return
    groups = list(dict.fromkeys(group for group, _ in both))
    at_once = [f"{group.who}: one thread is in {group.wait}, another in {wait}." for group, wait in both[:3]]
    order = "Each rank may have begun with another of the two, and in one group the calls must come in one order."
    odd = groups if count(groups) * 2 < count(scene.joined) else []
    yield Finding("collective-mismatch", 0.74, named(odd), [*at_once, order])


def lone_collective(scene: Scene) -> Iterable[Finding]:
    """Rank 0 alone waits in a collective for evaluation or saving while the others train on."""
    if ids(scene.joined) != ["rank0"] or count(scene.off) < 2:
        return
    group = scene.joined[0]
    elsewhere = all(other.kind in (RUNNING, "cuda") for other in scene.off)
    if elsewhere and group.kind in COLLECTIVE and group.phases & _ASIDE:
        evidence = [f"{say(group)}.", f"The others are elsewhere: {say(scene.off)}."]
        yield Finding("rank-conditional", 0.76, ["rank0"], evidence)
        yield Finding("collective-mismatch", 0.64, ["rank0"], evidence)


RULES = (collectives, two_threads, lone_collective)
