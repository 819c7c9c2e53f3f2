"""What logs tell where there is no stack at all: who waited, who is missing among them, what was raised."""

from __future__ import annotations

from collections.abc import Iterable

from harness.hang.causes.finding import Finding, logged
from harness.hang.grouping import names
from harness.hang.scene import Scene


def is_all(scene: Scene) -> bool:
    """Whether there are logs and nothing else."""
    return bool(scene.dump.hints) and not scene.dump.processes and not scene.dump.recordings


def logs_alone(scene: Scene) -> Iterable[Finding]:
    """Ranks that waited until their watchdog's patience was over, and whoever isn't among them."""
    waited = sorted({hint.rank for hint in scene.hints("watchdog") if hint.rank is not None})
    if not is_all(scene) or not waited:
        return
    raised, killed = logged(scene.hints("traceback")), logged(scene.hints("oom"), most=1)
    silent = [f"rank{rank}" for rank in _silent(scene, waited)]
    who = names([f"rank{rank}" for rank in waited])
    evidence = [f"The watchdog of {who} says that a collective didn't end.", *logged(scene.hints("watchdog"), most=1)]
    if silent:
        evidence.append(f"{names(silent)} said nothing of the kind.")
    if raised:
        evidence += [*raised, "A log doesn't show whether whoever raised it is gone or caught it."]
        yield Finding("exception-swallowed", 0.66, silent, evidence)
        yield Finding("dead-peer", 0.62, silent, evidence)
    elif killed:
        yield Finding("dead-peer", 0.7, silent, [*evidence, *killed])
    elif silent:
        yield Finding("dead-peer", 0.56, silent, evidence)
        yield Finding("straggler", 0.54, silent, evidence)


def _silent(scene: Scene, waited: list[int]) -> list[int]:
    """Ranks that should be there and didn't complain: by the size that a log tells, else holes in the row."""
    said = [hint.numbers["world"] for hint in scene.hints() if "world" in hint.numbers]
    size = min(max([max(waited) + 1, *said]), 100_000)
    silent = sorted(set(range(size)) - set(waited))
    return silent if len(silent) <= max(1, size // 2) else []


RULES = (logs_alone,)
