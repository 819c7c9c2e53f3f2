"""Causes below Python: a GPU that doesn't finish, the communication library."""

from __future__ import annotations

from collections.abc import Iterable

from harness.hang.causes.finding import Cause, Finding, logged, named, say
from harness.hang.causes.late import others_wait
from harness.hang.groups import count
from harness.hang.scene import Scene

CAUSES = (
    Cause(
        "cuda-sync",
        title="the host waits for a GPU that doesn't finish",
        means="A kernel on the device doesn't end; the call that waits isn't the one that hangs.",
        elsewhere=(
            "Before this line: CUDA calls return before their work is done, so the kernel that doesn't end was started "
            "earlier."
        ),
        next=(
            "nvidia-smi; dmesg -T | grep -i xid   # on the machine of {who}",
            "export CUDA_LAUNCH_BLOCKING=1   # before the next start: the hang moves to the kernel's own call",
        ),
    ),
    Cause(
        "comm-library",
        title="it hangs inside the communication library",
        means="Below Python, in NCCL or the driver.",
        elsewhere=(
            "In the library's version, or in what corrupted its state before: NCCL 2.25.1 hangs in abort, before 2.29.3"
            " on aarch64 proxies can stall."
        ),
        next=(
            "make hang-dump NATIVE=1   # which of the library's functions",
            "compare the NCCL version with its release notes",
        ),
    ),
)


def device(scene: Scene) -> Iterable[Finding]:
    """The host waits for the GPU."""
    waiting = [group for group in scene.peers if group.kind == "cuda"]
    if not waiting:
        return
    if scene.joined and count(waiting) <= count(scene.joined):
        evidence = [f"Waiting for its GPU: {say(waiting)}.", others_wait(scene)]
        yield Finding("cuda-sync", 0.77, named(waiting), evidence)
        if all("step-layer" in group.phases for group in scene.joined):
            # What its GPU waits for may be a later collective than the others': they are in a step's, it isn't.
            yield Finding("uneven-steps", 0.71, named(waiting), evidence)
    elif len({group.wait.spot for group in waiting}) > 1:
        most = max(waiting, key=len)
        few = [group for group in waiting if group is not most]
        who = named(few) if count(few) < len(most) else []
        crossed = "All wait for their GPUs, at different places: kernels of two groups may wait for each other."
        yield Finding("cuda-sync", 0.72, who, [f"{say(waiting)}.", crossed])
        yield Finding("cross-group", 0.66, who, [f"{say(waiting)}.", crossed])
    else:
        yield Finding("cuda-sync", 0.52, [], [f"{say(waiting)}."])


def below_python(scene: Scene) -> Iterable[Finding]:
    """It hangs inside NCCL or the driver."""
    native = [group for group in scene.peers if group.kind in ("nccl", "abort")]
    if not native:
        return
    evidence = [f"{say(native)}: inside the communication library.", *logged(scene.hints("nccl-version"), most=1)]
    yield Finding("comm-library", 0.8, named(native), evidence)
    if any(group.kind == "abort" for group in native):
        yield Finding("cleanup", 0.62, named(native), evidence)
    if any(other.kind == "cuda" for group in native for other in group.standing.others):
        driver = "Another thread of it waits for the same driver."
        yield Finding("cuda-sync", 0.7, named(native), [*evidence, driver])


RULES = (device, below_python)
