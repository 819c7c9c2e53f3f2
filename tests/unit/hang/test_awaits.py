"""What the rules make of await chains, which every dump has of event loops that can be read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.hang import awaits
from harness.hang.decide import diagnose
from harness.hang.model import Dump, Loop, Process, Sample, Task, Thread
from harness.hang.readers.cluster import read_tasks
from harness.hang.verdict import Verdict
from tests.unit.hang.build import collective, dump, frame, process, thread

LOOP = ("select selectors.py:468", "_run_once asyncio/base_events.py:1884", "run asyncio/runners.py:190")
ACQUIRE = "Semaphore.acquire asyncio/locks.py:387"
EVENT = "Event.wait asyncio/locks.py:213"
SLEEP = "sleep asyncio/tasks.py:649"
HTTP = (
    "AsyncClient.send httpx/_client.py:1629",
    "handle_async_request httpcore/_async/http11.py:1",
    "read anyio/x.py:1",
)
MAIN = Task("Task-1", (frame("main app.py:80"),), "_GatheringFuture")


def task(*chain: str, waiting_on: str = "Future") -> Task:
    return Task("Task-2", tuple(frame(text) for text in chain), waiting_on)


def asleep(*more: Thread, id: str = "driver", switches: int = 0, **fields: Any) -> Process:
    """A process whose event loop slept between two samples, woken up so many times."""
    threads = (thread(*LOOP, "<module> app.py:90"), *more)
    found = process(*threads, id=id, **{"role": "driver", **fields})
    found.samples = [Sample(threads, at, cpu_seconds=1.0, switches=int(at * switches / 2)) for at in (0.0, 2.0)]
    return found


def judged(*tasks: Task, loop: Loop | None = None, more: tuple[Process, ...] = (), **fields: Any) -> Verdict:
    found: Dump = dump(asleep(**fields), *more, tasks={"driver": [MAIN, *tasks]})
    found.loops = {"driver": [loop]} if loop else {}
    return diagnose(found)


def test_a_loop_that_nothing_can_wake_has_lost_what_it_waits_for() -> None:
    verdict = judged(task("one_run app.py:3", EVENT), loop=Loop(0, None, 0))
    assert (verdict.state, verdict.cause, verdict.confidence) == ("hung", "async-lost", "certain")
    assert any("nothing can wake up its tasks" in text for text in verdict.evidence)


def test_a_thread_that_works_could_still_wake_it() -> None:
    works = thread("loads app.py:7", "_worker concurrent/futures/thread.py:83", name="pool_0")
    verdict = judged(task("one_run app.py:3", EVENT), loop=Loop(0, None, 0))
    busy = dump(asleep(works), tasks={"driver": [MAIN, task("one_run app.py:3", EVENT)]})
    busy.loops = {"driver": [Loop(0, None, 0)]}
    assert diagnose(busy).confidence != "certain"
    assert verdict.confidence == "certain"


def test_slots_that_nobody_gives_back_are_told_of_a_program_that_listens_too() -> None:
    """It would pass for a service that waits for its first request."""
    chain = ("run_episode app.py:68", "SearchTool.__call__ app.py:50", ACQUIRE)
    verdict = judged(*[task(*chain)] * 20, loop=Loop(0, None, 1), listens=True)
    assert (verdict.state, verdict.cause, verdict.laggards) == ("hung", "async-lost", ["driver"])
    assert any("20 tasks wait for a lock or a slot" in text for text in verdict.evidence)


@pytest.mark.parametrize(
    "others",
    [
        [task("Server.serve uvicorn/server.py:70", "Server.main_loop uvicorn/server.py:120", SLEEP)],
        [task("LifespanOn.main uvicorn/lifespan/on.py:86", "Queue.get asyncio/queues.py:158")],
        [task("consume app.py:12", "Queue.get asyncio/queues.py:158")],
        [task("serve app.py:2", "Server.serve_forever asyncio/base_events.py:372")],
        [],
    ],
)
def test_a_service_without_requests_is_idle(others: list[Task]) -> None:
    verdict = judged(*others, loop=Loop(0, None, 2), listens=True)
    assert not verdict.hangs


@pytest.mark.parametrize(
    "on_its_way", [task("call app.py:1", *HTTP), task("call app.py:1", "to_thread asyncio/threads.py:25")]
)
def test_who_waits_for_a_slot_while_its_holder_is_busy_is_not_stuck(on_its_way: Task) -> None:
    verdict = judged(*[task("run_episode app.py:68", ACQUIRE)] * 3, on_its_way, loop=Loop(0, None, 1), listens=True)
    assert not verdict.hangs


def test_tasks_that_ask_a_server_are_not_lost() -> None:
    verdict = judged(*[task("one_run app.py:3", *HTTP)] * 8, loop=Loop(0, None, 1))
    assert "server-blocked" in (verdict.cause, *verdict.candidates)
    assert verdict.confidence != "certain"


@pytest.mark.parametrize(("due", "hangs"), [(0.5, False), (9000.0, True)])
def test_a_timer_counts_if_it_goes_off_before_long(due: float, hangs: bool) -> None:
    """A controller that looks every second whether it may go on, and a time-out of hours."""
    tasks = [task("one_run app.py:3", EVENT), task("watchdog app.py:9", SLEEP)]
    assert judged(*tasks, loop=Loop(1, due, 0)).hangs is hangs


def test_a_loop_that_is_woken_up_again_and_again_gets_on() -> None:
    assert not judged(task("one_run app.py:3", EVENT), loop=Loop(0, None, 0), switches=200).hangs


def test_results_of_ray_come_by_a_thread_that_no_stack_shows() -> None:
    prints = thread("print_logs ray/_private/worker.py:900", name="ray_print_logs")
    waits = dump(asleep(prints), tasks={"driver": [task("step app.py:3")]})
    waits.loops = {"driver": [Loop(0, None, 0)]}
    verdict = diagnose(waits)
    assert "ray-wait" in (verdict.cause, *verdict.candidates)
    assert verdict.confidence != "certain"


@pytest.mark.parametrize("switches", [0, 200])
def test_a_rank_whose_loop_sleeps_while_others_wait_for_it(switches: int) -> None:
    """Threads of gloo's wake up in it again and again, which is no progress of its tasks."""
    ranks = tuple(process(collective("all_reduce", 9), id=f"rank{rank}") for rank in (1, 2))
    found = dump(
        asleep(id="rank0", role="rank", switches=switches), *ranks, tasks={"rank0": [task("rollout a.py:1", EVENT)]}
    )
    verdict = diagnose(found)
    assert (verdict.cause, verdict.laggards) == ("async-lost", ["rank0"])


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([{"timers": 2, "next_timer": 1.5, "watched": 0}], [Loop(2, 1.5, 0)]),
        ([{"timers": 0, "next_timer": None, "watched": 3}], [Loop(0, None, 3)]),
        # One of them couldn't be read: then nothing is known of what could wake the process up.
        ([{"timers": 0, "next_timer": None, "watched": 3}, None], []),
        ([{"timers": "many"}], []),
        ("rubbish", []),
        (None, []),
    ],
)
def test_loops_are_known_all_or_not_at_all(told: object, expected: list[Loop]) -> None:
    assert read_tasks(json.dumps({"pid": 3, "tasks": [], "loops": told}).encode()) == (3, [], expected)


def test_thousands_of_tasks_are_counted_once_a_chain() -> None:
    found = dump(asleep(), tasks={"driver": [task("one_run app.py:3", ACQUIRE)] * 20_000})
    known = awaits.of(found, ["driver"])
    assert known is not None
    assert (len(known.locks), len(known.within), known.stuck) == (20_000, 20_000, True)


BEAT = task("heartbeat app.py:30", SLEEP)
LOST = task("rollout app.py:38", "Client.ask app.py:20")


def test_what_only_a_heartbeat_could_bring_is_told_and_not_called_hung() -> None:
    """A task that looks for it every half second would look the same."""
    verdict = judged(LOST, BEAT, loop=Loop(1, 0.4, 0))
    assert (verdict.state, verdict.cause, verdict.confidence) == ("unknown", "async-lost", "undecided")
    assert verdict.laggards == ["driver"]
    assert any("Client.ask (app.py:20)" in text and "heartbeat (app.py:30)" in text for text in verdict.evidence)


@pytest.mark.parametrize(
    ("tasks", "loop"),
    [
        ([LOST, BEAT], Loop(1, 0.4, 1)),  # a socket may bring it
        ([LOST, BEAT, task("ask app.py:5", *HTTP)], Loop(1, 0.4, 0)),
        ([BEAT], Loop(1, 0.4, 0)),
        ([LOST, BEAT], None),
    ],
    ids=["a socket", "an answer", "nobody waits", "a loop that couldn't be read"],
)
def test_where_it_may_come_from_elsewhere_nothing_is_said_of_that(tasks: list[Task], loop: Loop | None) -> None:
    assert judged(*tasks, loop=loop).cause != "async-lost" or judged(*tasks, loop=loop).state != "unknown"


@pytest.mark.parametrize(("turns", "cause"), [(0, "async-lost"), (40, "unknown")])
def test_a_thread_that_ticks_beside_a_loop_wakes_up_nobody(turns: int, cause: str) -> None:
    """A monitor's or a profiler's; the loop's own thread tells whether the loop is woken up."""
    late = asleep(switches=400)
    for sample in late.samples:
        sample.main_turns = int(sample.at * turns / 2)
    assert diagnose(dump(late)).cause == cause
