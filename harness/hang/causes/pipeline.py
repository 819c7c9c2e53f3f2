"""Causes between neighbours: sends and receives that don't meet."""

from __future__ import annotations

from collections.abc import Iterable

from harness.hang.causes.finding import Cause, Finding, say
from harness.hang.groups import count
from harness.hang.scene import Scene
from harness.hang.waits import P2P

CAUSES = (
    Cause(
        "p2p-order",
        title="sends and receives don't meet",
        means="Neighbouring stages call send and recv in an order, or on a group, that doesn't match.",
        elsewhere=(
            "In the order of sends and receives of neighbouring stages, the group they use, or the peer they name."
        ),
        next=(
            "print stage, peer, group and shape before each send and recv of one step",
            "use batch_isend_irecv, or let even stages send first and odd ones receive first",
        ),
        apart={
            "size-mismatch": "make hang-dump LOCALS=1   # on both ends: peer, type and size of the blocked call",
        },
    ),
)

# Calls that agree on shapes before data flows: when these hang, sizes aren't the reason.
_SHAPE_TALK = frozenset({"_communicate_shapes", "_shape_inference"})


def point_to_point(scene: Scene) -> Iterable[Finding]:
    """Stages of a pipeline wait for each other."""
    pairing = [group for group in scene.joined if group.kind in P2P and "cleanup" not in group.phases]
    if count(pairing) < (1 if scene.dump.stands_for_all else 2):
        return
    meeting = [group for group in scene.joined if group not in pairing]
    late = any(not group.idle for group in scene.off)
    # Somebody late, or a barrier beside a single receiver: then the pipeline only shows it.
    less = 0.25 if late or scene.gone or (meeting and count(pairing) < 2) else 0.0
    senders = [group for group in pairing if group.kind == "p2p-send"]
    receivers = [group for group in pairing if group.kind == "p2p-recv"]
    evidence = [f"{say(pairing)}."] + ([f"Others wait for them: {say(meeting)}."] if meeting else [])
    if senders and not receivers:
        yield Finding("p2p-order", 0.8 - less, [], [*evidence, "Everybody sends and nobody receives."])
        yield Finding("size-mismatch", 0.5 - less, [], evidence)
    elif receivers and not senders:
        unsent = "Everybody receives and nobody sends: what came didn't fit what was awaited, or was never sent."
        yield Finding("size-mismatch", 0.62 - less, [], [*evidence, unsent])
        yield Finding("p2p-order", 0.61 - less, [], evidence)
    else:
        shapes = any(_SHAPE_TALK & {*group.wait.through, group.wait.operation} for group in pairing)
        yield Finding("p2p-order", (0.66 if shapes else 0.61) - less, [], evidence)
        yield Finding("size-mismatch", 0.62 - less, [], evidence)


RULES = (point_to_point,)
