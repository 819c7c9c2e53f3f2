"""Asks all ways in side by side. Nothing that reads or judges their answers is imported here: that can wait."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence

from harness.hang.ways import Stoppable, Unreachable, Way
from harness.processes.crowding import patience
from harness.processes.sampling.model import NodeAnswer, SampleRequest

GRACE_SECONDS = 15.0
STOPPING_SECONDS = 5.0


def ask(
    ways: Sequence[Way], request: SampleRequest, grace_seconds: float = GRACE_SECONDS
) -> tuple[list[NodeAnswer], dict[str, str]]:
    """Sample by all ways at once, every one in a thread of its own; one that doesn't come back is left behind.

    Args:
        grace_seconds: beside what the samples themselves may take: connecting, starting, carrying the answer. More on a
            busy machine.

    Returns:
        The answers in the order of the ways, and the ways without one by name, with the reason.
    """
    grace_seconds *= patience()
    deadline = time.monotonic() + request.timeout_seconds + grace_seconds
    until_named = grace_seconds + request.gap_seconds * (request.samples - 1) + request.dump_seconds
    answers: dict[int, NodeAnswer] = {}
    unreachable: dict[str, str] = {}
    failures: dict[int, BaseException] = {}

    def sample(number: int, way: Way) -> None:
        try:
            answers[number] = way.sample(request, deadline)
        except Unreachable as error:
            unreachable[way.name] = error.reason
        except BaseException as error:  # noqa: BLE001  # it is raised again below, by the one who asked
            failures[number] = error
        finally:
            done.add(number)
            back.put(number)

    # Who is back, and not whose thread has ended: on a busy machine that may take a moment more.
    done: set[int] = set()
    back: queue.SimpleQueue[int] = queue.SimpleQueue()
    # Daemons: a way that hangs must not keep the command from ending.
    threads = [
        threading.Thread(target=sample, args=(number, way), name=f"way {way.name}", daemon=True)
        for number, way in enumerate(ways)
    ]
    try:
        # Within: Ctrl-C may come as soon as the first of them works.
        for thread in threads:
            thread.start()
        _wait(ways, back, answers, deadline, until_named)
    finally:
        # Too late, or Ctrl-C: who still works is told to end what was started, and has a moment for it.
        late = [number for number in range(len(ways)) if number not in done and threads[number].ident is not None]
        for number in late:
            if isinstance(way := ways[number], Stoppable):
                way.stop()
        until = time.monotonic() + STOPPING_SECONDS
        for number in late:
            threads[number].join(max(0.0, until - time.monotonic()))
    unreachable |= {ways[number].name: "it didn't answer in time" for number in late}
    for number, error in failures.items():
        if not isinstance(error, Exception) or len(ways) == 1:
            raise error
        unreachable[ways[number].name] = f"{type(error).__name__}: {error}"
    return [answers[number] for number in sorted(answers)], dict(unreachable)


def _wait(
    ways: Sequence[Way],
    back: queue.SimpleQueue[int],
    answers: dict[int, NodeAnswer],
    deadline: float,
    seconds: float,
) -> None:
    """Wait for the ways, as long as it makes sense.

    Once half of them are back and one has found processes, the others get as long again and what one sampling may
    take: a host that hangs is named soon, also where the whole dump might take minutes. What is done in this process
    comes to its end by itself, however busy the machine is, and is waited for.
    """
    started, until = time.monotonic(), deadline
    late = set(range(len(ways)))
    while late:
        here = any(getattr(ways[number], "ends_itself", False) for number in late)
        rest = (deadline if here else until) - time.monotonic()
        if rest <= 0:
            break
        try:
            late.discard(back.get(timeout=rest))
        except queue.Empty:
            break
        found = any(answer.processes for answer in list(answers.values()))
        if found and 2 * len(late) <= len(ways) and until == deadline:
            until = min(deadline, 2 * time.monotonic() - started + seconds)
