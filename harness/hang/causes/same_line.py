"""Causes where everybody is in the same call: what they pass, or what is below the program."""

from __future__ import annotations

from collections.abc import Iterable

from harness.hang.causes.finding import Cause, Finding, say
from harness.hang.grouping import names
from harness.hang.groups import Group, count
from harness.hang.scene import Scene
from harness.hang.waits import COLLECTIVE

CAUSES = (
    Cause(
        "size-mismatch",
        title="ranks pass tensors of different size or dtype",
        means="The call is the same everywhere, what is passed isn't.",
        elsewhere="Where the tensor gets its shape: padding, a last batch, a filter, a reused buffer.",
        next=(
            "make hang-dump LOCALS=1   # types and sizes of the blocked call on every rank",
            (
                "export TORCH_FR_BUFFER_SIZE=2000   # before the next start: the Flight Recorder keeps sizes and dtypes"
                " of the last calls"
            ),
        ),
    ),
    Cause(
        "network",
        title="the network or the device below doesn't deliver",
        means="Everybody is in the same call at the same line and nothing comes.",
        elsewhere="In interfaces, firewalls, cables and switches between the hosts.",
        next=(
            "export NCCL_DEBUG=INFO   # before the next start: which interface and which transport each rank chose",
            "ping and iperf3 between the hosts of two ranks; dmesg and nvidia-smi on each",
        ),
        apart={
            "size-mismatch": "make hang-dump LOCALS=1   # sizes on every rank: equal ones mean network",
            "cross-group": "export TORCH_FR_BUFFER_SIZE=2000   # before the next start: which group each rank is in",
        },
    ),
)

# Their sizes may differ from rank to rank.
_UNEQUAL = ("all_to_all", "gather", "scatter", "all_gather", "reduce_scatter")
_SAME_LINE = (
    "Stacks can't tell a slow or cut network from tensors of different sizes: both wait at the same line. "
    "The Flight Recorder or the tensors' shapes tell them apart."
)


def same_line(scene: Scene) -> Iterable[Finding]:
    """Everybody is there, at the same line."""
    together = [group for group in scene.peers if group.kind in COLLECTIVE or group.kind == "cuda"]
    if not together or len(together) != len(scene.peers) or scene.gone:
        return
    if all(group.moved for group in together):
        return  # met at the line that takes most of a step, and each has left it in between
    if len({group.wait.spot for group in together}) != 1 or together[0].phases & {"cleanup", "request-poll"}:
        return
    number = count(together)
    if scene.unasked and not scene.dump.stands_for_all:
        return  # whoever is late may be one of those
    if number < 2 and not scene.dump.stands_for_all:
        # One rank's stack: it waits for somebody whom nobody has dumped.
        evidence = [f"{say(together)}.", "Only this rank was dumped; it takes the others' stacks to tell."]
        yield Finding("network", 0.42, [], evidence)
        yield Finding("size-mismatch", 0.42, [], evidence)
        return
    who = f"All {number} are" if number > 1 else "All are"
    evidence = [f"{who} at the same line: {say(together, most=1)}.", _SAME_LINE]
    if all(group.busy for group in together):
        evidence.append("They also used their cores between the samples: on a CPU backend that means they get on.")
    if calls := _calls(together):
        yield from _by_sizes(calls)
        return
    score = 0.62 if together[0].kind in COLLECTIVE else 0.58
    yield Finding("network", score, [], evidence)
    yield Finding("size-mismatch", score - 0.01, [], evidence)


def _calls(together: list[Group]) -> dict[str, list[str]]:
    """Blocked calls with their sizes, each with who is in it; {} where not everybody's are known."""
    calls: dict[str, list[str]] = {}
    for process in (process for group in together for process in group.members):
        if "[" not in process.blocked_call:
            return {}
        calls.setdefault(process.blocked_call, []).append(process.id)
    return calls


def _by_sizes(calls: dict[str, list[str]]) -> Iterable[Finding]:
    """Local variables were looked at: sizes decide between the program and what is below it."""
    if len(calls) == 1:
        equal = f"All pass the same: {next(iter(calls))}. What is left is below the program."
        yield Finding("network", 0.66, [], [equal])
        yield Finding("cross-group", 0.6, [], ["Or two groups are used in different orders: sizes don't show these."])
        return
    evidence = [f"{names(who)}: {call}." for call, who in sorted(calls.items(), key=lambda item: -len(item[1]))[:6]]
    most = max(len(who) for who in calls.values())
    few = [name for who in calls.values() if len(who) < most for name in who]
    odd = few if most * 2 > sum(map(len, calls.values())) else []
    if any(call.startswith(_UNEQUAL) for call in calls):
        yield Finding("size-mismatch", 0.5, odd, [*evidence, "In this operation sizes may differ by design."])
        yield Finding("network", 0.55, [], evidence)
    else:
        yield Finding("size-mismatch", 0.9, odd, evidence)


RULES = (same_line,)
