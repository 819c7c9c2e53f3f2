"""The rules, one small file a family. Each looks at a scene and gives findings; ``decide`` weighs them.

To add a cause: write a function that yields ``Finding``s, list it here, describe its code in ``causes.yaml``, and put a
case with its truth under ``tests/hang_cases`` first.
"""

from __future__ import annotations

from harness.hang.causes import mismatch, places, presence, services
from harness.hang.causes.finding import Finding, Rule

RULES: tuple[Rule, ...] = (
    presence.stopped,
    presence.dead_peer,
    presence.cleanup,
    presence.init,
    mismatch.recorder,
    mismatch.watchdog,
    mismatch.collectives,
    mismatch.lone_collective,
    mismatch.point_to_point,
    mismatch.same_line,
    places.straggler,
    places.python_loop,
    places.user_code,
    places.compiling,
    places.saving,
    places.device,
    places.gil,
    places.below_python,
    places.back_home,
    places.lock_file,
    places.data_workers,
    services.ray_resources,
    services.ray_wait,
    services.server,
    services.staleness,
    services.lost_await,
    services.message_queue,
)

__all__ = ["RULES", "Finding", "Rule"]
