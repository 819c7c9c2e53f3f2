"""The rules, one small file a family. Each looks at a scene and gives findings; ``decide`` weighs them.

To add a cause: put a case with its truth under ``tests/hang_cases`` first, then write a function that yields
``Finding``s, list it here, and describe its code in ``causes.yaml``.
"""

from __future__ import annotations

from harness.hang.causes import cluster, held, late, logs_alone, mismatch, pipeline, presence, recorders, services
from harness.hang.causes.finding import Finding, Rule

RULES: tuple[Rule, ...] = (
    presence.stopped,
    presence.dead_peer,
    presence.cleanup,
    presence.init,
    recorders.recorder,
    recorders.watchdog,
    mismatch.collectives,
    mismatch.two_threads,
    mismatch.lone_collective,
    mismatch.same_line,
    pipeline.point_to_point,
    late.straggler,
    late.caught,
    late.died_unseen,
    late.back_home,
    late.polls_after_failure,
    late.python_loop,
    late.compiling,
    late.saving,
    held.user_code,
    held.device,
    held.gil,
    held.below_python,
    held.lock_file,
    held.data_workers,
    held.unread_queue,
    held.lost_lock,
    cluster.ray_resources,
    cluster.ray_core,
    cluster.ray_wait,
    services.server,
    services.staleness,
    services.lost_await,
    services.own_threads,
    services.alone,
    services.message_queue,
    logs_alone.logs_alone,
)

__all__ = ["RULES", "Finding", "Rule"]
