"""What the rules make of a dump, and how sure they may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.hang.decide import diagnose
from harness.hang.model import Hint, Process, Recorded, Recording, Sample, Task, Thread
from harness.hang.readers import read
from tests.unit.hang.build import C10D, collective, dump, frame, process, sampled, thread

LATE = thread("prepare data.py:7", "step train.py:9", "<module> train.py:99")
IDLE_ACTOR = thread("main_loop ray/_private/worker.py:949", "<module> ray/_private/workers/default_worker.py:289")
IDLE_SERVER = thread(
    "select selectors.py:468",
    "_run_once asyncio/base_events.py:1884",
    "run_forever asyncio/base_events.py:607",
    "run uvicorn/server.py:66",
)


def test_one_sample_of_stacks_is_never_certain() -> None:
    verdict = diagnose(
        dump(process(collective(), id="rank0"), process(LATE, id="rank1"), process(collective(), id="rank2"))
    )
    assert (verdict.state, verdict.cause, verdict.confidence, verdict.laggards) == (
        "hung",
        "straggler",
        "likely",
        ["rank1"],
    )
    assert any("One sample" in note for note in verdict.notes)


def test_two_samples_tell_slow_from_stuck() -> None:
    moved = thread("encode data.py:3", "step train.py:9", "<module> train.py:99")
    ranks = [sampled(collective(), collective(), id="rank0"), sampled(LATE, moved, cpu=3, id="rank1")]
    verdict = diagnose(dump(*ranks))
    assert (verdict.state, verdict.cause, verdict.laggards, verdict.hangs) == ("slow", "straggler", ["rank1"], False)
    verdict = diagnose(dump(sampled(collective(), collective(), id="rank0"), sampled(LATE, LATE, id="rank1")))
    assert (verdict.state, verdict.laggards) == ("hung", ["rank1"])


def test_a_third_sample_that_moves_is_enough() -> None:
    late = sampled(LATE, LATE, cpu=4, id="rank1")
    late.samples.insert(1, Sample((thread("encode data.py:3", "<module> train.py:99"),), 2.5, cpu_seconds=3.0))
    assert diagnose(dump(sampled(collective(), collective(), id="rank0"), late)).state == "slow"


def test_everybody_at_the_same_line_is_undecided_until_something_else_tells() -> None:
    ranks = [sampled(collective(), collective(), id=f"rank{rank}", pid=rank) for rank in range(4)]
    verdict = diagnose(dump(*ranks))
    assert (verdict.state, verdict.confidence, verdict.laggards) == ("hung", "undecided", [])
    assert sorted(verdict.candidates) == ["network", "size-mismatch"]
    assert "LOCALS=1" in verdict.next[0]
    verdict = diagnose(dump(*ranks, recordings=[_recording(rank, 8) for rank in range(4)]))
    assert verdict.cause == "network"
    verdict = diagnose(dump(*ranks, recordings=[_recording(rank, 4 if rank == 3 else 8) for rank in range(4)]))
    assert (verdict.cause, verdict.confidence, verdict.laggards) == ("size-mismatch", "certain", ["rank3"])
    assert [row["ranks"] for row in verdict.recorder] == ["0-2", "3"]


def _recording(rank: int, size: int, last: int = 5) -> Recording:
    operation = Recorded("0", last, "all_reduce", f"[[{size}]] → [[{size}]]", "Float → Float", False, False)
    return Recording(rank, [operation], {"0": [0, 1, 2, 3]}, {"0": last}, {"0": last - 1})


def test_the_recorder_names_who_never_came_and_the_stack_says_why() -> None:
    stopped = process(LATE, id="rank2", state="T")
    ranks = [process(collective(), id=f"rank{rank}") for rank in (0, 1, 3)]
    recordings = [_recording(rank, 8, last=4 if rank == 2 else 5) for rank in range(4)]
    verdict = diagnose(dump(*ranks, stopped, recordings=recordings))
    assert (verdict.cause, verdict.confidence, verdict.laggards) == ("stopped", "certain", ["rank2"])
    assert any("lacks rank 2" in text for text in verdict.evidence)


def test_a_rank_that_is_missing_is_named() -> None:
    ranks = [process(collective(), id=f"rank{rank}") for rank in (0, 1, 3)]
    verdict = diagnose(dump(*ranks, world_size=4))
    assert (verdict.state, verdict.laggards) == ("hung", ["rank2"])
    assert [(row.id, row.note) for row in verdict.processes][-1] == ("rank2", "expected, not found")


def test_a_dump_of_few_ranks_of_many_calls_nobody_missing() -> None:
    verdict = diagnose(dump(process(collective(), id="rank3"), process(collective(), id="rank900")))
    assert not any(row.note for row in verdict.processes)


@pytest.mark.parametrize(
    ("fields", "cause", "confidence"),
    [
        ({"state": "Z"}, "dead-peer", "certain"),
        ({"exit_code": -9}, "dead-peer", "certain"),
        ({"exit_code": 0}, "exception-swallowed", "likely"),
    ],
)
def test_a_rank_that_has_ended(fields: dict[str, Any], cause: str, confidence: str) -> None:
    gone = process(id="rank1", **fields)
    gone.samples = []
    verdict = diagnose(dump(process(collective(), id="rank0"), gone, process(collective(), id="rank2")))
    assert (verdict.cause, verdict.confidence, verdict.laggards) == (cause, confidence, ["rank1"])


def test_who_ends_while_the_dump_is_taken_is_named() -> None:
    """A driver that raised meanwhile, and its actors with it: of a job that is over no stack says that it hangs."""
    ended = [
        process(thread("get worker.py:9"), id=f"worker:{pid}", role="worker", pid=pid, state="X") for pid in (3, 4)
    ]
    loader = process(thread("get q.py:9"), id="loader:5", role="child", pid=5, state="X")
    verdict = diagnose(dump(*ended, loader, process(IDLE_SERVER, id="server", role="server")))
    assert not verdict.hangs
    assert "worker:3, worker:4 ended while the dump was taken." in verdict.evidence


def test_a_traceback_in_the_log_of_the_one_that_left() -> None:
    gone = process(id="rank1", exit_code=0, logs=["rank1.log"])
    gone.samples = []
    hints = [Hint("traceback", "ValueError: bad sample", source="rank1.log")]
    verdict = diagnose(dump(process(collective(), id="rank0"), gone, hints=hints))
    assert (verdict.cause, verdict.confidence) == ("exception-swallowed", "certain")
    assert any("ValueError: bad sample" in text for text in verdict.evidence)


@pytest.mark.parametrize("idle", [IDLE_ACTOR, IDLE_SERVER])
def test_who_has_nothing_to_do_is_not_called_hung(idle: Thread) -> None:
    alone = diagnose(dump(*(process(idle, id=f"worker:{pid}", role="worker", pid=pid) for pid in (1, 2))))
    assert (alone.state, alone.cause, alone.hangs) == ("idle", "none", False)
    beside = diagnose(
        dump(sampled(LATE, thread("f a.py:1"), cpu=4, id="rank0"), process(idle, id="server", role="server"))
    )
    assert not beside.hangs


def test_a_name_that_all_share_is_no_cleanup() -> None:
    """A program whose main function is called cleanup trains in it as well."""
    ranks = [process(collective("all_reduce", 10, "cleanup train.py:50"), id=f"rank{rank}") for rank in range(3)]
    assert diagnose(dump(*ranks)).cause != "cleanup"
    ranks[1] = process(
        thread(f"barrier {C10D}:1", "__exit__ engine.py:3", "cleanup train.py:50", "<module> train.py:99"), id="rank1"
    )
    verdict = diagnose(dump(*ranks))
    assert (verdict.cause, verdict.laggards) == ("cleanup", ["rank1"])


def test_the_deciding_thread_need_not_be_the_main_one() -> None:
    side = collective()
    found = process(IDLE_ACTOR, Thread("AsyncIO", side.stack, False, False), id="rank0")
    verdict = diagnose(dump(found, process(LATE, id="rank1")))
    assert verdict.laggards == ["rank1"]
    assert verdict.groups[0].kind == "collective"


def test_helper_threads_and_wrappers_set_no_groups_apart() -> None:
    monitor = thread("wait threading.py:331", "run tqdm/_monitor.py:60", name="Thread-4")
    wrapped = thread(
        f"all_reduce {C10D}:3000",
        "wrapper torch/distributed/c10d_logger.py:81",
        "step train.py:10",
        "<module> train.py:99",
    )
    plain = thread(f"all_reduce {C10D}:3000", "step train.py:10", "<module> train.py:99")
    verdict = diagnose(dump(process(wrapped, monitor, id="rank0"), process(plain, id="rank1")))
    assert {group.coarse for group in verdict.groups} == {0}
    assert sorted(verdict.candidates) == ["network", "size-mismatch"]


def test_await_chains_are_shown() -> None:
    loop = thread(
        "select selectors.py:468", "_run_once asyncio/base_events.py:1884", "main app.py:3", "<module> app.py:9"
    )
    tasks = [Task("Task-1", (frame("rollout app.py:7"), frame("Semaphore.acquire asyncio/locks.py:387")))] * 3
    verdict = diagnose(dump(sampled(loop, loop, id="driver", role="driver"), tasks={"driver": tasks}))
    assert (verdict.cause, verdict.confidence, verdict.laggards) == ("async-lost", "certain", ["driver"])
    assert any("3 tasks: rollout:7 > Semaphore.acquire:387" in text for text in verdict.evidence)
    assert not any("TASKS=1" in step for step in verdict.next)


def test_a_loop_that_is_woken_up_is_not_lost() -> None:
    loop = thread("select selectors.py:468", "_run_once asyncio/base_events.py:1884", "run_agents app.py:3")
    alive = sampled(loop, loop, id="driver", role="driver")
    alive.samples[0].switches, alive.samples[1].switches = 100, 150
    assert not diagnose(dump(alive)).hangs
    alive.samples[1].switches = 101
    assert diagnose(dump(alive)).cause == "async-lost"


def test_finished_and_failed_jobs_do_not_hang() -> None:
    ended = [process(id=f"rank{rank}", exit_code=code) for rank, code in ((0, 0), (1, 1))]
    for one in ended:
        one.samples = []
    verdict = diagnose(dump(*ended))
    assert (verdict.state, verdict.hangs, verdict.laggards) == ("done", False, ["rank1"])


def test_next_steps_name_the_process_to_look_at() -> None:
    verdict = diagnose(dump(process(collective(), id="rank0", pid=10), process(LATE, id="rank1", pid=4711)))
    assert any("make hang-dump" in step and "rank 1" in step for step in verdict.next)


def test_the_mistake_is_said_to_lie_elsewhere() -> None:
    leaving = thread(f"destroy_process_group {C10D}:1", "close engine.py:2", "<module> train.py:99")
    verdict = diagnose(dump(process(leaving, id="rank0"), process(collective(), id="rank1")))
    assert verdict.cause == "cleanup"
    assert "exception" in verdict.elsewhere


def test_sizes_of_the_blocked_call_decide_at_the_same_line() -> None:
    def ranks(*sizes: int) -> list[Process]:
        found = [sampled(collective(), collective(), id=f"rank{rank}", pid=rank) for rank in range(len(sizes))]
        for one, size in zip(found, sizes, strict=True):
            one.blocked_call = f"all_reduce(tensor=float32[{size}])"
        return found

    other = diagnose(dump(*ranks(8, 8, 7)))
    assert (other.cause, other.confidence, other.laggards) == ("size-mismatch", "certain", ["rank2"])
    assert diagnose(dump(*ranks(8, 7))).laggards == []
    # Equal sizes leave what stacks and sizes can't show: never "size-mismatch".
    equal = diagnose(dump(*ranks(8, 8, 8)))
    assert equal.confidence == "undecided"
    assert equal.candidates == ["network", "cross-group"]


def test_a_rank_that_listens_for_its_group_is_no_service() -> None:
    waiting = process(collective(), id="rank0", pid=1, listens=True)
    loop = thread("EpollSelector.select selectors.py:468", "_run_once asyncio/base_events.py:1", "main train.py:3")
    sleeping = process(loop, id="rank1", pid=2, listens=True)
    verdict = diagnose(dump(waiting, sleeping))
    assert (verdict.cause, verdict.laggards) == ("async-lost", ["rank1"])


RAY_GET = thread("get ray/_private/worker.py:2967", "fit driver.py:30", "<module> driver.py:60")


def _with_pending(*others: Process, **more: Any) -> Any:
    driver = sampled(RAY_GET, RAY_GET, id="driver", role="driver", pid=9)
    return diagnose(dump(driver, *others, pending_actors=["Evaluator 0a1b2c3d"], **more))


def test_an_actor_without_a_place_is_the_cause_where_nobody_else_can_be() -> None:
    alone = _with_pending(sampled(IDLE_ACTOR, IDLE_ACTOR, id="worker:2", role="worker", pid=2))
    assert (alone.cause, alone.confidence) == ("ray-resources", "certain")
    # Who joins a group may wait for the very one that has no place.
    joining = thread(
        "_create_c10d_store torch/distributed/rendezvous.py:199", f"init_process_group {C10D}:1", "setup train.py:9"
    )
    assert _with_pending(sampled(joining, joining, id="rank0", pid=2)).cause == "ray-resources"


@pytest.mark.parametrize("busy", [False, True])
def test_an_actor_without_a_place_beside_ranks_that_hang_is_not_called_the_cause(busy: bool) -> None:
    last = sampled(LATE, LATE, cpu=5.0 if busy else 0.0, id="rank1", pid=3)
    verdict = _with_pending(sampled(collective(), collective(), id="rank0", pid=2), last)
    assert verdict.cause != "ray-resources", verdict
    assert verdict.laggards == ["rank1"]
    same = [sampled(collective(), collective(), id=f"rank{rank}", pid=rank + 2) for rank in range(3)]
    assert _with_pending(*same).confidence == "undecided"


def test_a_task_of_an_executor_decides_for_whoever_waits_for_it() -> None:
    """The main thread collects results; the pool's thread in its task is where the process stands."""
    collects = thread("result concurrent/futures/_base.py:449", "score train.py:9", "<module> train.py:99")
    task = thread(
        "wait subprocess.py:1264", "run_code sandbox.py:7", "_worker concurrent/futures/thread.py:83",
        name="ThreadPoolExecutor-0_0",
    )  # fmt: skip
    free = thread("_worker concurrent/futures/thread.py:81", name="ThreadPoolExecutor-0_1")
    child = sampled(thread("write out.py:3"), thread("write out.py:3"), id="worker:7", role="child", pid=7)
    child.owner = "driver"
    driver = process(collects, task, free, id="driver", role="driver")
    verdict = diagnose(dump(driver, child))
    assert (verdict.cause, verdict.laggards) == ("user-code", ["worker:7"])


def test_a_thread_that_died_is_named_where_somebody_waits_inside_the_process() -> None:
    waits = thread("wait threading.py:327", "get queue.py:171", "train train.py:9", "<module> train.py:99")
    driver = process(waits, id="driver", role="driver")
    driver.logs = ["logs/a.log"]
    hints = [
        Hint("thread-died", "Exception in thread rollout:", source="logs/a.log"),
        Hint("traceback", "KeyError: 'reward'", source="logs/a.log"),
    ]
    verdict = diagnose(dump(driver, hints=hints))
    assert (verdict.cause, verdict.laggards) == ("exception-swallowed", ["driver"])
    assert any("KeyError" in text for text in verdict.evidence)
    elsewhere = [Hint("thread-died", "Exception in thread rollout:", source="logs/b.log")]
    assert diagnose(dump(driver, hints=elsewhere)).cause == "unknown"


def test_a_worker_that_a_pool_started_later_tells_of_one_that_died() -> None:
    waits = thread("get multiprocessing/pool.py:768", "<module> train.py:99")
    idle = ("recv multiprocessing/connection.py:250", "worker multiprocessing/pool.py:114")
    first = process(thread(*idle, "_repopulate_pool multiprocessing/pool.py:306"), id="worker:2", role="child", pid=2)
    later = process(
        thread(*idle, "_maintain_pool multiprocessing/pool.py:340", "_handle_workers multiprocessing/pool.py:516"),
        id="worker:3", role="child", pid=3,
    )  # fmt: skip
    for child in (first, later):
        child.owner = "driver"
    driver = process(waits, id="driver", role="driver")
    verdict = diagnose(dump(driver, first, later))
    assert (verdict.cause, verdict.laggards) == ("dead-peer", [])
    assert any("worker:3" in text and "has ended" in text for text in verdict.evidence)
    assert not any("worker:3: the pool" in text for text in diagnose(dump(driver, first)).evidence)


def test_a_loop_among_several_samples_is_not_told_from_long_work() -> None:
    """Slow or without end: nobody is accused, and nobody is acquitted."""
    shown = [
        thread(*inner, f"sample_prompt data.py:{line}", "<module> train.py:9", active=True, gil=True)
        for line, inner in ((22, ("choice random.py:374",)), (23, ()), (22, ("choice random.py:378",)), (22, ()))
    ]
    late = process(shown[0], id="rank1")
    late.samples = [Sample((one,), float(at), cpu_seconds=float(at)) for at, one in enumerate(shown)]
    verdict = diagnose(dump(sampled(collective(), collective(), id="rank0"), late))
    assert (verdict.state, verdict.confidence) == ("slow", "undecided")
    assert {*verdict.candidates} == {"straggler", "python-loop"}
    assert any("sample_prompt" in text and "nobody can see" in text for text in verdict.evidence)


def test_ranks_that_all_compute_at_the_same_line_in_both_samples_train() -> None:
    computes = thread("step train.py:24", "<module> train.py:9", active=True, gil=True)
    ranks = [process(computes, id=f"rank{number}", pid=number + 1) for number in range(2)]
    for one in ranks:
        one.samples = [Sample((computes,), float(at), cpu_seconds=float(at)) for at in range(2)]
    assert not diagnose(dump(*ranks)).hangs
    # Where somebody waits for one of them it is another matter.
    assert diagnose(dump(ranks[0], sampled(collective(), collective(), id="rank1", pid=9))).laggards == ["rank0"]


def test_saving_on_rank_0_alone_is_no_loop_that_the_others_have_left() -> None:
    gathers = (f"all_gather {C10D}:4287", "full_state train.py:27")
    saves = thread(*gathers, "save_checkpoint train.py:33", "<module> t.py:9")
    waits = thread(f"barrier {C10D}:5356", "save_checkpoint train.py:34", "<module> t.py:9")
    verdict = diagnose(dump(process(saves, id="rank0"), *(process(waits, id=f"rank{n}", pid=n) for n in (1, 2))))
    assert (verdict.cause, verdict.laggards) == ("rank-conditional", ["rank0"])
    # In a training step it may as well be a loop.
    steps = thread(f"all_gather {C10D}:4287", "gather train.py:27", "train_all train.py:33", "<module> t.py:9")
    done = thread(f"barrier {C10D}:5356", "train_all train.py:34", "<module> t.py:9")
    verdict = diagnose(dump(process(steps, id="rank0"), *(process(done, id=f"rank{n}", pid=n) for n in (1, 2))))
    assert verdict.confidence == "undecided"


def test_a_task_that_waits_for_capacity_is_staleness() -> None:
    loop = thread("select selectors.py:468", "_run_once asyncio/base_events.py:1884", "<module> train.py:9")
    chain = (frame("train train.py:9"), frame("wait_for_capacity control.py:31"), frame("wait asyncio/locks.py:213"))
    driver = process(loop, id="driver", role="driver")
    verdict = diagnose(dump(driver, tasks={"driver": [Task("Task-1", chain)]}))
    assert verdict.cause == "staleness"
    assert diagnose(dump(driver, tasks={"driver": [Task("Task-1", chain[:1])]})).cause == "async-lost"


def _pool_that_asks_itself(**more: Any) -> Process:
    result = "result concurrent/futures/_base.py:449"
    main = thread("wait threading.py:327", result, "epoch data.py:29", "<module> train.py:9")
    task = thread(
        "wait threading.py:327", result, "one_batch data.py:25", "_worker concurrent/futures/thread.py:83", name="p_0"
    )
    found = process(main, task, id="driver", role="driver", **more)
    found.samples = [Sample((main, task), at, cpu_seconds=1.0, switches=int(at)) for at in (0.0, 5.0)]
    return found


def test_threads_that_all_wait_for_each_other_wait_for_ever() -> None:
    verdict = diagnose(dump(_pool_that_asks_itself()))
    assert (verdict.state, verdict.cause, verdict.laggards) == ("hung", "async-lost", ["driver"])
    assert any("all threads wait for each other" in text for text in verdict.evidence)


def test_threads_that_somebody_else_may_wake_are_left_alone() -> None:
    assert diagnose(dump(_pool_that_asks_itself(listens=True))).cause == "unknown"
    polls = _pool_that_asks_itself()
    polls.samples[1].switches = 100
    assert diagnose(dump(polls)).cause == "unknown"
    reads = _pool_that_asks_itself()
    socket = thread("recv_into socket.py:706", "read client.py:7", name="reader")
    reads.samples = [Sample((*sample.threads, socket), sample.at, cpu_seconds=1.0) for sample in reads.samples]
    assert diagnose(dump(reads)).cause == "unknown"
    once = _pool_that_asks_itself()
    once.samples = once.samples[:1]
    assert diagnose(dump(once)).cause == "unknown"


def test_a_child_that_only_waits_for_its_queue_to_be_read() -> None:
    joins = thread("poll multiprocessing/popen_fork.py:27", "join multiprocessing/process.py:149", "<module> t.py:9")
    done = thread("join threading.py:1119", "_finalize_join multiprocessing/queues.py:199", "<module> train.py:7")
    works = thread("join threading.py:1119", "score train.py:3", "<module> train.py:7")
    driver = process(joins, id="driver", role="driver")
    child = process(done, id="worker:2", role="child", pid=2)
    child.owner = "driver"
    verdict = diagnose(dump(driver, child))
    assert (verdict.cause, verdict.laggards) == ("rpc-queue", [])
    child.samples = [Sample((works,))]
    assert diagnose(dump(driver, child)).cause != "rpc-queue"


def test_a_worker_that_computes_at_other_lines_is_slow_and_no_false_alarm() -> None:
    """An environment that takes long for one step looks like one without end; who waits at its pipe isn't stuck."""
    waits = thread("recv multiprocessing/connection.py:250", "step env.py:9", "<module> train.py:99")
    lines = [thread(f"physics env.py:{line}", "serve env.py:40", "<module> train.py:9", active=True) for line in (3, 4)]
    child = sampled(lines[0], lines[1], cpu=5, id="worker:2", role="child", pid=2)
    child.owner = "driver"
    verdict = diagnose(dump(sampled(waits, waits, id="driver", role="driver"), child))
    assert (verdict.state, verdict.laggards) == ("slow", ["worker:2"])
    stuck = sampled(lines[0], lines[0], id="worker:2", role="child", pid=2)
    stuck.owner = "driver"
    assert diagnose(dump(sampled(waits, waits, id="driver", role="driver"), stuck)).state == "hung"


_WATCHDOG = (
    "[rank{0}]:[E1130 22:11:05 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=8121, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600012 ms"
)
_RAISED = 'Traceback (most recent call last):\n  File "/app/a.py", line 1, in <module>\nValueError: too long\n'


@pytest.mark.parametrize("as_folder", [True, False])
def test_logs_alone_tell_who_is_missing_among_those_that_waited(tmp_path: Path, as_folder: bool) -> None:
    log = tmp_path / "train.log"
    log.write_text(_RAISED + "\n".join(_WATCHDOG.format(rank) for rank in (0, 2, 3)))
    verdict = diagnose(read(str(tmp_path if as_folder else log)))
    assert verdict.state == "hung"
    assert set(verdict.candidates) == {"exception-swallowed", "dead-peer"}
    assert verdict.laggards == ["rank1"]
    assert any("ValueError: too long" in text for text in verdict.evidence)


def test_logs_alone_without_anybody_who_waits_are_no_hang(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(_RAISED)
    verdict = diagnose(read(str(tmp_path)))
    assert (verdict.state, verdict.cause) == ("unknown", "unknown")
    assert any("ValueError: too long" in text for text in verdict.evidence)


def test_text_that_bears_on_nothing_is_no_input(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("step 1\nstep 2\n")
    with pytest.raises(UsageError, match="holds no stack"):
        read(str(tmp_path))
