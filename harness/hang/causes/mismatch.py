"""Causes that lie in what ranks call: other operations, other sizes, another number of steps, another order."""

from __future__ import annotations

from collections.abc import Iterable

from harness.hang.causes.finding import Finding, named, say
from harness.hang.grouping import divergence, names
from harness.hang.scene import Group, Scene, count, ids, minority
from harness.hang.waits import COLLECTIVE, COMMUNICATION, P2P

_SAME_LINE = (
    "Stacks can't tell a slow or cut network from ranks that pass tensors of different sizes: both wait at the same line. "
    "The Flight Recorder or the tensors' sizes (LOCALS=1) tell them apart."
)


def recorder(scene: Scene) -> Iterable[Finding]:
    """The Flight Recorder knows operations, sizes and who never came."""
    found = scene.recorded
    if found is None:
        return
    who = [f"rank{rank}" for rank in found.ranks]
    evidence = [f"Flight Recorder: {found.text}"]
    if found.kind == "type":
        yield Finding("collective-mismatch", 0.93, who, evidence)
    elif found.kind in ("size", "dtype"):
        yield Finding("size-mismatch", 0.95, who, evidence, elsewhere="Look where this tensor gets its shape: padding, a last batch, a filter.")
    elif found.kind == "cycle":
        yield Finding("cross-group", 0.92, [], evidence, elsewhere="Two groups are used in opposite order by different ranks.")
    elif found.kind == "behind":
        # The recorder knows who is late, the stacks know why.
        yield Finding("straggler", 0.6, who, evidence)
        if not scene.groups:
            yield Finding("dead-peer", 0.5, who, evidence)
    elif found.kind == "same":
        yield Finding("network", 0.86, [], [*evidence, "Same operation, same sizes on every rank: what is left is below the program."])


def watchdog(scene: Scene) -> Iterable[Finding]:
    """The watchdog's log lines carry number, operation and size of what timed out, rank by rank."""
    lines = [hint for hint in scene.hints("watchdog") if hint.rank is not None and "sequence" in hint.numbers]
    by_rank = {hint.rank: hint for hint in lines}
    if len(by_rank) > 1:
        sequences = {hint.numbers["sequence"] for hint in by_rank.values()}
        sizes = {hint.numbers.get("inputs") for hint in by_rank.values()}
        operations = {hint.text.partition("OpType=")[2].partition(",")[0] for hint in by_rank.values()}
        evidence = [f"Log of rank {rank}: {hint.text[:200]}" for rank, hint in sorted(by_rank.items(), key=lambda item: item[0] or 0)[:3]]
        if len(sequences) == 1 and len(operations) > 1:
            yield Finding("collective-mismatch", 0.9, [], evidence)
        elif len(sequences) == 1 and len(sizes) > 1 and not operations & {"ALLTOALL", "ALLTOALL_BASE", "GATHER", "SCATTER"}:
            yield Finding("size-mismatch", 0.9, [], evidence)
    for hint in scene.hints("fingerprint")[:1]:
        yield Finding("collective-mismatch", 0.95, [], [f"Log: {hint.text}"])


def collectives(scene: Scene) -> Iterable[Finding]:
    """Ranks wait in different collectives, or in the same one from different places."""
    meeting = [group for group in scene.joined if group.kind in COLLECTIVE and "cleanup" not in group.phases]
    spots = {group.wait.spot for group in meeting}
    pairing = [group for group in scene.joined if group.kind in P2P and "cleanup" not in group.phases]
    if len(spots) < 2 and not (meeting and pairing):
        return
    everyone = meeting + pairing
    odd = minority(everyone, lambda group: group.wait.spot)
    rest = [group for group in everyone if group not in odd]
    operations = {group.wait.operation for group in everyone}
    callers = {group.wait.own[:1] and (group.wait.own[0].function, group.wait.own[0].file) for group in everyone}
    evidence = [f"{say(group)}." for group in everyone[:4]]
    shared = divergence(everyone[0].wait.clean, everyone[-1].wait.clean)
    if shared is not None and shared[0] != shared[1]:
        evidence.append(f"Their ways part in {shared[0].name} ({shared[0].file}), at line {shared[0].line} and line {shared[1].line}.")
    strength = 0.0
    # Pipeline stages in send and recv often wait for those whose collectives don't end; then that is the thing to explain.
    if pairing and count(pairing) > 1 and len({group.wait.spot for group in meeting}) < 2:
        strength = -0.2
    if scene.off and any(not group.idle for group in scene.off):
        strength -= 0.08
    base = 0.72 + strength
    if len(operations) > 1 and len(callers) == 1:
        base = 0.88 + strength
    yield Finding(
        "collective-mismatch", base, named(odd), evidence,
        elsewhere="The mistake is where the ranks' ways part, not in the call that waits.",
    )  # fmt: skip
    yield from _uneven(everyone, odd, rest, evidence, base, strength)
    yield from _rank_conditional(scene, odd, rest, evidence, callers, strength)
    yield from _cross_group(scene, odd, operations, evidence, base, strength)
    if all("checkpoint" in group.phases for group in everyone):
        yield Finding("checkpoint-skew", base - 0.1, named(odd), evidence)


def _uneven(everyone: list[Group], odd: list[Group], rest: list[Group], evidence: list[str], base: float, strength: float) -> Iterable[Finding]:
    """Some have left a loop that the others are still in."""
    dummy = [group for group in everyone if "dummy" in group.phases]
    inside = [group for group in everyone if "step-layer" in group.phases]
    outside = [group for group in everyone if "step-layer" not in group.phases]
    final = [group for group in everyone if group.wait.operation in ("barrier", "monitored_barrier")]
    elsewhere = "Look for what decides the number of steps on each rank: data set length, dynamic batches, a sampler without drop_last, requests per server."
    if dummy and len(dummy) < len(everyone):
        yield Finding("uneven-steps", base + 0.04, named(dummy), [*evidence, f"{names(ids(dummy))} only keeps the others company."], elsewhere=elsewhere)
    elif inside and outside:
        yield Finding("uneven-steps", 0.75 + strength, named(odd) or named(outside), evidence, elsewhere=elsewhere)
    elif final and len(final) < len(everyone):
        done = [group for group in final if group in odd] or final
        laggards = named(odd) if odd else named(done)
        yield Finding("uneven-steps", 0.7 + strength / 2, laggards, [*evidence, f"{names(ids(final))} may be done with the loop."], elsewhere=elsewhere)
    elif odd and rest:
        yield Finding("uneven-steps", 0.5, named(odd), evidence, elsewhere=elsewhere)


def _rank_conditional(
    scene: Scene, odd: list[Group], rest: list[Group], evidence: list[str], callers: set[object], strength: float
) -> Iterable[Finding]:
    """Exactly rank 0 is in a collective of its own."""
    if ids(odd) != ["rank0"] or len(callers) < 2:
        return
    extra = any(group.phases & {"evaluation", "checkpoint"} for group in odd) and not all(group.phases & {"evaluation", "checkpoint"} for group in rest)
    yield Finding(
        "rank-conditional", (0.8 if extra else 0.7) + strength, ["rank0"], [*evidence, "It is exactly rank 0 that stands apart."],
        elsewhere="Look for `if rank == 0`, `is_main_process` or a progress bar that only rank 0 has, above the call on rank 0.",
    )  # fmt: skip


def _cross_group(
    scene: Scene, odd: list[Group], operations: set[str], evidence: list[str], base: float, strength: float
) -> Iterable[Finding]:
    """Two groups, two orders."""
    foreign = [group for group in scene.others if group.kind in COMMUNICATION and group.role != "child"]
    elsewhere = "Each side waits in one group for somebody who waits in another; the order of the two must be the same everywhere."
    if foreign and odd:
        yield Finding("cross-group", 0.8 + strength, named(odd), [*evidence, f"And outside the ranks: {say(foreign)}."], elsewhere=elsewhere)
    elif len(operations) == 1 and not any("step-layer" in group.phases for group in scene.joined):
        yield Finding("cross-group", base - 0.06, [], evidence, elsewhere=elsewhere)


def lone_collective(scene: Scene) -> Iterable[Finding]:
    """Rank 0 alone waits in a collective for evaluation or saving while the others train on."""
    if ids(scene.joined) != ["rank0"] or count(scene.off) < 2 or any(group.kind not in ("running", "cuda") for group in scene.off):
        return
    group = scene.joined[0]
    if group.kind in COLLECTIVE and group.phases & {"evaluation", "checkpoint"}:
        yield Finding(
            "rank-conditional", 0.76, ["rank0"], [f"{say(group)}.", f"The others are elsewhere: {say(scene.off)}."],
            elsewhere="Look for `if rank == 0`, `is_main_process` or a progress bar that only rank 0 has, above the call on rank 0.",
        )  # fmt: skip
        yield Finding("collective-mismatch", 0.64, ["rank0"], [f"{say(group)}."])


def point_to_point(scene: Scene) -> Iterable[Finding]:
    """Stages of a pipeline wait for each other."""
    pairing = [group for group in scene.joined if group.kind in P2P and "cleanup" not in group.phases]
    if not pairing or (count(pairing) < 2 and not scene.dump.stands_for_all):
        return
    meeting = [group for group in scene.joined if group not in pairing]
    busy = [group for group in scene.off if not group.idle]
    weaken = 0.25 if busy or scene.gone else 0.0
    # A last barrier beside a single receiver is a matter of steps, not of the pipeline.
    if meeting and count(pairing) < 2:
        weaken = 0.25
    senders = [group for group in pairing if group.kind == "p2p-send"]
    receivers = [group for group in pairing if group.kind == "p2p-recv"]
    evidence = [f"{say(pairing)}."] + ([f"Others wait for them: {say(meeting)}."] if meeting else [])
    elsewhere = "Compare the order of sends and receives of neighbouring stages, the group they use, and shape and dtype of what they pass."
    shapes = any("_communicate_shapes" in group.wait.through or "_shape_inference" in group.wait.through for group in pairing)
    if senders and not receivers:
        yield Finding("p2p-order", 0.8 - weaken, [], [*evidence, "Everybody sends and nobody receives."], elsewhere=elsewhere)
        yield Finding("size-mismatch", 0.5 - weaken, [], evidence)
    elif receivers and not senders:
        yield Finding("size-mismatch", 0.62 - weaken, [], [*evidence, "Everybody receives and nobody sends: what was sent didn't match what was awaited, or it was never sent."], elsewhere=elsewhere)
        yield Finding("p2p-order", 0.61 - weaken, [], evidence, elsewhere=elsewhere)
    else:
        yield Finding("p2p-order", (0.66 if shapes else 0.61) - weaken, [], evidence, elsewhere=elsewhere)
        yield Finding("size-mismatch", 0.62 - weaken, [], evidence, elsewhere=elsewhere)


def same_line(scene: Scene) -> Iterable[Finding]:
    """Everybody is there, at the same line."""
    together = [group for group in scene.peers if group.kind in COLLECTIVE or group.kind == "cuda"]
    if not together or len(together) != len(scene.peers) or len({group.wait.spot for group in together}) != 1 or scene.gone:
        return
    if "cleanup" in together[0].phases or "request-poll" in together[0].phases:
        return
    number = count(together)
    evidence = [f"All {number} are at the same line: {say(together, most=1)}." if number > 1 else f"{say(together)}."]
    if number < 2 and not scene.dump.stands_for_all:
        # One rank's stack: it waits for somebody whom nobody has dumped.
        world = scene.dump.world_size
        evidence.append("Only this one was dumped" + (f" of {world}." if world else "; the others' stacks are needed to tell."))
        yield Finding("network", 0.42, [], evidence)
        yield Finding("size-mismatch", 0.42, [], evidence)
        return
    weight = 0.62 if together[0].kind in COLLECTIVE else 0.58
    yield Finding("network", weight, [], [*evidence, _SAME_LINE])
    yield Finding("size-mismatch", weight - 0.01, [], [*evidence, _SAME_LINE])
