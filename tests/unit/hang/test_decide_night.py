"""What the rules make of what somebody on call met: long work, launchers, nodes that weren't looked at, dead locks."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from harness.hang.decide import diagnose
from harness.hang.model import Dump, Hint, Process, Sample, Thread
from harness.hang.readers.cluster import read_actors
from harness.hang.readers.identity import name_all
from tests.unit.hang.build import collective, dump, process, sampled, thread

# futex(address, FUTEX_WAIT_BITSET, 0, no time-out, …) and one with a time-out, as /proc/PID/syscall has them.
FOR_EVER = "202 0x5588bba75d80 0x189 0x0 0x0 0x0 0xffffffff 0x7ffc81266550 0x7fd0baaa3f16"
FOR_A_WHILE = "202 0x5588bba75d80 0x189 0x0 0x7ffc0000 0x0 0xffffffff 0x7ffc81266550 0x7fd0baaa3f16"
RUNNER = "_invoke_run torch/distributed/elastic/agent/server/api.py:923"


def still(*threads: Thread, cpu: float = 0.0, state: str = "S", switches: int | None = None, **more: Any) -> Process:
    """A process that was met twice at the same place."""
    found = process(*threads, **more)
    found.state = state
    found.samples = [
        Sample(threads, at, state, cpu_seconds=1.0 + at * cpu, switches=switches) for at in (0.0, 2.0)
    ]  # fmt: skip
    return found


# --- who computes isn't stuck ---


@pytest.mark.parametrize("share", [1.0, 0.05])  # a core of its own; what is left of one on a crowded machine
def test_a_long_computation_that_others_wait_for_is_slow(share: float) -> None:
    """Compiled code gives the interpreter's lock back while it computes."""
    late = still(thread("whiten job.py:5", "main job.py:11", active=True), cpu=share, state="R")
    verdict = diagnose(dump(late, still(collective(), id="rank1", pid=2)))
    assert (verdict.state, verdict.laggards) == ("slow", ["rank0"])
    assert verdict.confidence == "undecided"
    assert set(verdict.candidates) == {"straggler", "python-loop"}


def test_one_line_that_keeps_the_interpreter_s_lock_while_others_wait_is_a_loop() -> None:
    late = still(thread("pack job.py:5", "main job.py:11", active=True, gil=True), cpu=1.0, state="R")
    verdict = diagnose(dump(late, still(collective(), id="rank1", pid=2)))
    assert (verdict.state, verdict.cause, verdict.laggards) == ("hung", "python-loop", ["rank0"])


def test_lines_of_one_function_that_others_wait_for_are_a_loop() -> None:
    """Compiled code stays at one line while it computes; this is Python, which goes round."""
    here, there = (thread(f"pack job.py:{line}", "main job.py:11", active=True, gil=True) for line in (5, 7))
    late = sampled(here, there, cpu=5.0)
    verdict = diagnose(dump(late, still(collective(), id="rank1", pid=2)))
    assert (verdict.state, verdict.cause, verdict.laggards) == ("hung", "python-loop", ["rank0"])
    assert diagnose(dump(sampled(here, there, cpu=5.0))).state == "slow"


def test_a_pool_whose_workers_compute_at_one_line_is_slow() -> None:
    worker = ("verify job.py:4", "worker multiprocessing/pool.py:125", "_launch multiprocessing/popen_fork.py:71")
    parent = thread("wait threading.py:327", "next multiprocessing/pool.py:861", "<module> job.py:8")
    busy = [
        still(
            thread(*worker, active=True), cpu=0.04, state="R", id=f"worker:{pid}", role="child", owner="driver", pid=pid
        )
        for pid in (5, 6)
    ]
    verdict = diagnose(dump(still(parent, id="driver", role="driver"), *busy))
    assert (verdict.state, verdict.cause) == ("slow", "user-code")


def test_a_program_alone_in_compiled_code_hangs_no_more_than_a_healthy_one() -> None:
    compiled = thread("forward torch/nn/modules/linear.py:134", "logprobs job.py:5", active=True)
    verdict = diagnose(dump(still(compiled, cpu=1.0, state="R", id="driver", role="driver")))
    assert (verdict.state, verdict.cause) == ("slow", "none")
    # With the interpreter's lock it goes round in Python: that is named, and still nobody can see its end.
    looping = thread("walk job.py:5", active=True, gil=True)
    verdict = diagnose(dump(still(looping, cpu=1.0, state="R", id="driver", role="driver")))
    assert (verdict.state, verdict.cause) == ("slow", "python-loop")


def test_a_reward_that_sleeps_is_still_called_hung() -> None:
    asleep = still(thread("verify job.py:4", "main job.py:10"))
    verdict = diagnose(dump(asleep, still(collective(), id="rank1", pid=2)))
    assert (verdict.state, verdict.cause, verdict.laggards) == ("hung", "user-code", ["rank0"])


def test_a_loop_that_was_met_in_one_library_call_each_time_is_a_loop() -> None:
    tops = (
        ("choice random.py:374", "_randbelow random.py:242"),
        ("choice random.py:372",),
        ("choice random.py:374",),
        ("choice random.py:373",),
    )
    late = process(thread("choice random.py:372", "sample job.py:22", "main job.py:29", active=True, gil=True))
    late.samples = [
        Sample((thread(*top[::-1], "sample job.py:22", "main job.py:29", active=True, gil=True),), at, "R",
               cpu_seconds=1.0 + at)
        for at, top in enumerate(tops)
    ]  # fmt: skip
    verdict = diagnose(dump(late, still(collective(), id="rank1", pid=2)))
    assert (verdict.state, set(verdict.candidates)) == ("slow", {"straggler", "python-loop"})
    assert any("somewhere in sample (job.py:22)" in text for text in verdict.evidence)


def test_whoever_starts_something_that_gets_on_is_starting() -> None:
    fetching = thread("wait areal/infra/async_task_runner.py:618", "_fetch_loop areal/infra/workflow_executor.py:409")
    driver = still(fetching, id="driver", role="driver")
    child = sampled(
        thread("a <frozen importlib._bootstrap>:1", "<module> server.py:3", active=True),
        thread("b <frozen importlib._bootstrap>:9", "<module> server.py:5", active=True),
        id="worker:9", role="child", owner="driver", pid=9,
    )  # fmt: skip
    assert diagnose(dump(driver, child)).state == "slow"
    assert (diagnose(dump(driver)).state, diagnose(dump(driver)).cause) == ("hung", "staleness")


# --- the interpreter's lock ---


def test_a_lock_seen_in_one_sample_of_a_launcher_is_nobody_s_fault() -> None:
    inside = thread("_sanitize torch/distributed/elastic/rendezvous/dynamic_rendezvous.py:475", RUNNER, gil=True)
    launcher = sampled(thread(RUNNER), inside, id="launcher", role="launcher", pid=9, state="D")
    rank = still(thread("_try_wait subprocess.py:2004", "wait subprocess.py:1264", "verify job.py:5"))
    verdict = diagnose(dump(launcher, rank, still(collective(), id="rank1", pid=2)))
    assert (verdict.cause, verdict.laggards) == ("user-code", ["rank0"])


@pytest.mark.parametrize(("first", "state", "said"), [(True, "S", True), (False, "S", False), (True, "D", False)])
def test_a_holder_counts_in_every_sample_and_not_while_it_fetches_a_page(first: bool, state: str, said: bool) -> None:
    holds, lets_go = (thread("solve native.py:3", "main job.py:9", gil=gil) for gil in (True, False))
    holder = sampled(holds if first else lets_go, holds, state=state)
    verdict = diagnose(dump(holder, still(collective(), id="rank1", pid=2)))
    assert ((verdict.cause, verdict.confidence) == ("gil-held", "certain")) == said


# --- nodes that nobody looked into ---


def two_nodes(**more: Any) -> Dump:
    """Rank 0 of two, one a node."""
    return dump(
        still(collective(), local_rank=0, local_world_size=1, world_size=2, switches=7), world_size=2, **more
    )  # fmt: skip


def test_a_rank_on_another_node_is_not_gone_but_was_not_looked_at() -> None:
    verdict = diagnose(two_nodes())
    assert (verdict.state, verdict.cause, verdict.laggards) == ("unknown", "unknown", [])
    assert any("rank 1 wasn't looked at" in text for text in verdict.evidence)


def test_a_rank_that_should_be_on_this_node_is_gone() -> None:
    found = two_nodes()
    found.processes[0].local_world_size = 2
    verdict = diagnose(found)
    assert (verdict.cause, verdict.laggards) == ("dead-peer", ["rank1"])


def test_a_paused_container_is_stopped_and_the_next_step_wakes_it() -> None:
    verdict = diagnose(two_nodes(unreachable={"net1": "it is paused: docker unpause net1"}))
    assert (verdict.state, verdict.cause, verdict.laggards) == ("hung", "stopped", ["rank1"])
    assert verdict.next[0] == "docker unpause net1"


def test_a_container_that_has_ended_is_a_dead_peer_with_its_exit_code() -> None:
    verdict = diagnose(two_nodes(unreachable={"net1": "it has ended, with exit code 137"}))
    assert (verdict.state, verdict.cause, verdict.laggards) == ("hung", "dead-peer", ["rank1"])
    assert any("exit code 137" in text for text in verdict.evidence)


@pytest.mark.parametrize("moves", [False, True])
def test_nothing_hangs_is_not_said_while_somebody_could_not_be_asked(moves: bool) -> None:
    found = dump(still(thread(RUNNER), id="launcher", role="launcher"), unreachable={"gpu2": "no route to host"})
    if moves:
        found.processes.append(sampled(thread("a job.py:1"), thread("b job.py:9"), id="driver", role="driver", pid=4))
    verdict = diagnose(found)
    assert verdict.state == "unknown"
    assert any("gpu2 couldn't be asked: no route to host" in text for text in verdict.evidence)
    assert diagnose(dataclasses.replace(found, unreachable={})).state in ("idle", "slow")


def test_a_dead_pid_beside_a_living_program_is_named_and_changes_nothing_else() -> None:
    loop = thread("select selectors.py:468", "_run_once asyncio/base_events.py:1884", "<module> job.py:23")
    living = still(loop, id="", role="", pid=7, switches=9)
    dead = Process(pid=8, missing=True, error="there is no such process (any more)")
    name_all([living, dead])
    assert (living.id, living.role) == ("driver", "driver")
    verdict = diagnose(dump(living, dead))
    assert (verdict.state, verdict.cause) == ("hung", "async-lost")
    assert "Process 8 was named: there is no such process (any more)." in verdict.evidence


# --- Ray ---


def actors(*rows: tuple[str, str, str, str]) -> list[Hint]:
    """Hints of actors as (name, state, job, reason)."""
    table = [
        {"actor_id": f"{number:032x}", "class_name": name, "state": state, "job_id": job,
         "death_cause": {"actor_died_error_context": {"reason": reason, "error_message": reason}} if reason else None}
        for number, (name, state, job, reason) in enumerate(rows)
    ]  # fmt: skip
    return read_actors(json.dumps(table).encode())[1]


def test_only_actors_that_died_in_a_job_that_lives_count() -> None:
    over = ("Old", "DEAD", "01000000", "WORKER_DIED")
    assert actors(over, ("New", "ALIVE", "02000000", "")) == []
    assert actors(("Done", "DEAD", "02000000", "OUT_OF_SCOPE"), ("New", "ALIVE", "02000000", "")) == []
    died = actors(over, ("Lost", "DEAD", "02000000", "WORKER_DIED"), ("New", "ALIVE", "02000000", ""))
    assert [hint.text for hint in died] == [f"actor Lost {1:032x}"[:19] + " is dead: WORKER_DIED"]
    # All of a job's are dead: it may be the one that hangs for that.
    assert [hint.text.split()[1] for hint in actors(over, ("Lost", "DEAD", "02000000", "NODE_DIED"))] == ["Lost"]


def test_an_actor_that_waits_for_its_own_lock_is_named_and_an_idle_server_is_not() -> None:
    driver = still(thread("get_objects ray/_private/worker.py:1007", "<module> job.py:23"), id="driver", role="driver")
    inside = ("use job.py:15", "use job.py:17", "main_loop ray/_private/worker.py:1069")
    actor = still(thread(*inside), id="worker:2", role="worker", pid=2, command="ray::Tool.use")
    server = still(thread("sigwait signal.py:82", "main llamacpp_server.py:48"), id="server", role="server", pid=3)
    verdict = diagnose(dump(driver, actor, server))
    assert (verdict.state, verdict.cause, verdict.laggards) == ("hung", "ray-wait", ["worker:2"])
    assert any("a second time (line 17 and line 15)" in text for text in verdict.evidence)


# --- locks, queues and loops ---

HANDLER = ("handle server.py:15", "_run asyncio/events.py:80", "_run_once asyncio/base_events.py:1922")


@pytest.mark.parametrize(
    "top",
    [
        ("wait threading.py:327", "get queue.py:171"),
        ("wait threading.py:327", "result concurrent/futures/_base.py:451"),
        ("_read_status http/client.py:286", "getresponse http/client.py:1386"),
    ],
)
@pytest.mark.parametrize("active", [True, None])
def test_a_wait_in_a_callback_of_a_loop_blocks_a_server_whatever_way_led_to_it(
    top: tuple[str, ...], active: bool | None
) -> None:
    # A dumper that doesn't stop a process may say that its thread runs; the kernel counted no turn of it.
    held = thread(*top, "apply_weights server.py:21", *HANDLER, active=active)
    server = still(held, id="worker:9", role="worker", pid=9, switches=380)
    verdict = diagnose(dump(server))
    assert (verdict.state, verdict.cause, verdict.laggards) == ("hung", "server-blocked", ["worker:9"])


def test_the_only_thread_left_at_a_queue_waits_for_ever() -> None:
    put = ("wait threading.py:320", "put queue.py:140", "<module> rollout.py:9")
    alone = still(thread(*put), id="driver", role="driver", syscall=FOR_EVER)
    verdict = diagnose(dump(alone))
    assert (verdict.state, verdict.cause, verdict.laggards) == ("hung", "async-lost", ["driver"])
    # With a time-out it will go on; with a second thread somebody may serve it; a service waits like this.
    assert diagnose(dump(still(thread(*put), id="driver", role="driver", syscall=FOR_A_WHILE))).state != "hung"
    other = thread("work rollout.py:4", name="Thread-1", active=True)
    assert diagnose(dump(still(thread(*put), other, id="driver", role="driver"))).state != "hung"
    assert diagnose(dump(still(thread(*put), id="driver", role="driver", listens=True))).state != "hung"


def test_a_log_that_was_named_tells_why_the_other_thread_has_ended() -> None:
    alone = still(
        thread("wait threading.py:320", "put queue.py:140", "<module> rollout.py:9"), id="driver", role="driver"
    )
    hints = [
        Hint("thread-died", "Exception in thread Thread-1:", source="logs/0/x.log"),
        Hint("traceback", "ValueError: bad sample", source="logs/0/x.log"),
    ]
    verdict = diagnose(dump(alone, hints=hints))
    assert (verdict.state, verdict.cause) == ("hung", "exception-swallowed")
    assert any("bad sample" in text for text in verdict.evidence)


@pytest.mark.parametrize(("call", "cause"), [(FOR_EVER, "data-worker"), (FOR_A_WHILE, "user-code"), ("", "user-code")])
def test_forked_workers_asleep_at_a_lock_of_their_own_were_forked_while_it_was_taken(call: str, cause: str) -> None:
    launch = ("_launch multiprocessing/popen_fork.py:71", "__init__ multiprocessing/popen_fork.py:19")
    forked = ("worker multiprocessing/pool.py:125", *launch)
    parent = thread("wait threading.py:327", "get multiprocessing/pool.py:768", "main job.py:19")
    asleep = thread("log job.py:5", "score job.py:11", *forked)
    workers = [
        still(asleep, id=f"worker:{pid}", role="child", owner="driver",
              pid=pid, syscall=call)
        for pid in (5, 6)
    ]  # fmt: skip
    verdict = diagnose(dump(still(parent, id="driver", role="driver"), *workers))
    assert (verdict.state, verdict.cause) == ("hung", cause)
    assert verdict.laggards == ["worker:5", "worker:6"]


def test_the_holder_of_a_lock_on_a_file_is_said_and_nobody_is_told_to_remove_it() -> None:
    waiting = still(thread("load job.py:5", "main job.py:10"), id="rank2", pid=3, wchan="locks_lock_inode_wait")
    waiting.lock_holder = "process 77 (python holder.py) has /cache/model.lock"
    others = [still(collective("barrier"), id=f"rank{rank}", pid=rank + 1) for rank in range(2)]
    verdict = diagnose(dump(waiting, *others))
    assert (verdict.cause, verdict.laggards) == ("stale-lock", ["rank2"])
    assert any("process 77 (python holder.py) has /cache/model.lock" in text for text in verdict.evidence)
    assert not any("remove it" in step for step in verdict.next)


def test_a_child_of_a_rank_is_not_called_like_its_rank() -> None:
    asks = thread("_try_wait subprocess.py:2004", "wait subprocess.py:1264", "verify job.py:5")
    child = still(thread("<module> <string>:1"), id="rank1", role="child", owner="rank1", pid=48)
    verdict = diagnose(dump(still(collective()), still(asks, id="rank1", pid=2), child))
    assert any("rank 1's child 48 is in" in text for text in verdict.evidence)
    assert [group.who for group in verdict.groups if group.role == "child"] == ["rank 1's child 48"]
    assert verdict.laggards == ["rank1"]
