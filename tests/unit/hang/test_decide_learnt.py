"""What the rules make of what programs by strangers have shown: groups, queues, servers, and who gets on unseen."""

from __future__ import annotations

from typing import Any

import pytest

from harness.hang.decide import diagnose
from harness.hang.model import Process, Sample, Thread
from harness.hang.readers.logs import Hints
from tests.unit.hang.build import C10D, collective, dump, process, thread


def _actor(title: str, thread_: Thread, **more: Any) -> Process:
    return process(thread_, id=f"worker:{title}", role="worker", command=f"ray::{title}", **more)


@pytest.mark.parametrize("idle", ["Critic", "Policy"])
def test_an_actor_of_the_same_process_group_that_has_returned_is_missed(idle: str) -> None:
    main = "main_loop ray/_private/worker.py:1069"
    policy = _actor("Policy.update", collective("all_reduce", 39), backends="gloo", pid=2)
    home, judge = _actor(idle, thread(main), backends="gloo", pid=3), _actor("Judge", thread(main), pid=4)
    driver = process(
        thread("get ray/_private/worker.py:3009", "fit train.py:73"), id="driver", role="driver", command="python x.py"
    )
    verdict = diagnose(dump(driver, policy, home, judge))
    assert verdict.cause == "exception-swallowed"
    # Judge has nothing to do as well, but nobody waits for it.
    assert verdict.laggards == [f"worker:{idle}"]
    # Workers that do the same may have had another number of steps; a critic is no policy.
    assert ("uneven-steps" in verdict.candidates) == (idle == "Policy")


ASKS = (
    "readinto socket.py:706",
    "_read_status http/client.py:286",
    "getresponse http/client.py:1386",
    "do_open urllib/request.py:1352",
)


def _reward_server(*inner: str) -> Process:
    handler = ("score reward.py:29", "do_POST reward.py:54", "handle http/server.py:436")
    serving = ("_handle_request_noblock socketserver.py:318", "serve_forever socketserver.py:238", "main reward.py:70")
    return process(thread(*inner, *handler, *serving), id="server", role="server", listens=True, pid=9)


def test_a_server_of_one_thread_that_asks_somebody_answers_nobody() -> None:
    client = process(thread(*ASKS, "ask train.py:30", "<module> train.py:99"))
    verdict = diagnose(dump(client, _reward_server(*ASKS)))
    assert (verdict.cause, verdict.laggards) == ("server-blocked", ["server"])


def test_a_server_of_one_thread_whose_reward_has_a_program_run_is_not_called_blocked() -> None:
    runs = ("_try_wait subprocess.py:2004", "_wait subprocess.py:2046", "wait subprocess.py:1264")
    client = process(thread(*ASKS, "ask train.py:30"))
    verdict = diagnose(dump(client, _reward_server(*runs)))
    assert (verdict.cause, verdict.laggards) == ("user-code", ["server"])


def test_two_threads_in_collectives_of_one_group_may_have_begun_in_another_order() -> None:
    saving = thread(f"all_gather {C10D}:4400", "save checkpoint.py:30", name="Checkpointer", active=False)
    ranks = [process(collective(), saving, id=f"rank{rank}", pid=rank + 1) for rank in range(3)]
    verdict = diagnose(dump(*ranks))
    assert (verdict.cause, verdict.laggards) == ("collective-mismatch", [])
    # One thread each: the network, or sizes.
    alone = [process(collective(), id=f"rank{rank}", pid=rank + 1) for rank in range(3)]
    assert "collective-mismatch" not in diagnose(dump(*alone)).candidates


def _reader(pid: int, *top: str) -> Process:
    stood = thread(*top, "get multiprocessing/queues.py:102", "verifier_loop verify.py:38")
    return process(stood, id=f"worker:{pid}", role="child", owner="driver", pid=pid)


def test_readers_of_a_queue_who_all_wait_for_their_turn_have_lost_its_lock() -> None:
    waits = thread("_recv multiprocessing/connection.py:395", "get multiprocessing/queues.py:365", "score train.py:79")
    driver = process(waits, id="driver", role="driver", pid=1)
    turn, message = "__enter__ multiprocessing/synchronize.py:95", "_recv multiprocessing/connection.py:395"
    lost = diagnose(dump(driver, _reader(2, turn), _reader(3, turn)))
    assert (lost.cause, lost.laggards) == ("stale-lock", ["worker:2", "worker:3"])
    # As it always is where there is nothing to do: one waits for the message, the others for their turn.
    assert "stale-lock" not in diagnose(dump(driver, _reader(2, turn), _reader(3, message))).candidates


@pytest.mark.parametrize("printed", ["rollout 3f failed: KeyError('arguments')", "rollout 3f is done"])
def test_a_program_that_looks_for_what_has_failed_is_told_from_one_that_waits(printed: str) -> None:
    poll = thread("sample replay.py:40", "fit train.py:73", "<module> train.py:99")
    loop = thread("select selectors.py:468", "_run_once asyncio/base_events.py:1884", name="agent-loop")
    driver = process(poll, loop, id="driver", role="driver", logs=["logs/driver.log"])
    driver.samples = [Sample((poll, loop), at, cpu_seconds=1.0) for at in (0.0, 2.0)]
    hints = Hints(source="logs/driver.log")
    hints.feed(printed)
    verdict = diagnose(dump(driver, hints=hints.found))
    assert verdict.cause == ("exception-swallowed" if "failed" in printed else "unknown")
    assert verdict.hangs == ("failed" in printed)


def _twice(one: Thread, turns: int, cpu: float = 0.0, **more: Any) -> Process:
    found = process(one, **more)
    found.samples = [
        Sample((one,), 0.0, cpu_seconds=1.0, main_turns=100),
        Sample((one,), 2.0, cpu_seconds=1.0 + cpu, main_turns=100 + turns),
    ]
    return found


@pytest.mark.parametrize(
    ("backends", "turns", "hangs"),
    [("gloo", 20, False), ("gloo", 0, True), ("gloo", 3, True), ("nccl", 20, True), ("gloo nccl", 20, True)],
)
def test_who_leaves_its_collective_again_and_again_does_not_hang(backends: str, turns: int, hangs: bool) -> None:
    """A scheduler without requests: rank 0 sleeps between broadcasts of nothing, and rank 1 is always in the next."""
    sleeps = _twice(thread("idle scheduler.py:70", "loop scheduler.py:90"), turns, backends=backends)
    broadcast = thread(f"broadcast {C10D}:3151", "recv scheduler.py:40", "loop scheduler.py:88")
    waits = _twice(broadcast, turns, id="rank1", pid=2, backends=backends)
    assert diagnose(dump(sleeps, waits)).hangs == hangs


@pytest.mark.parametrize(("turns", "hangs"), [(400, False), (0, True)])
@pytest.mark.parametrize("on_a_core", [True, False])
def test_ranks_met_again_and_again_at_the_line_that_takes_most_of_a_step(
    on_a_core: bool, turns: int, hangs: bool
) -> None:
    """A crowded machine: each look finds all of them in the same collective, whether it is just over or goes on."""
    one = thread(f"all_reduce {C10D}:3252", "train_step train.py:71", "fit train.py:90", active=on_a_core)
    ranks = [_twice(one, turns, 0.5 if turns else 0.0, id=f"rank{n}", pid=n + 1, backends="gloo") for n in range(2)]
    assert diagnose(dump(*ranks)).hangs == hangs


def test_ranks_that_were_elsewhere_in_between_do_not_hang_where_they_are() -> None:
    """Only the last look finds them at one line."""
    before = thread("_engine_run_backward torch/autograd/graph.py:979", "fit train.py:89")
    ranks = [process(collective(), id=f"rank{n}", pid=n + 1) for n in range(2)]
    for rank in ranks:
        rank.samples = [Sample((before,), 0.0, cpu_seconds=1.0), Sample((collective(),), 2.0, cpu_seconds=1.2)]
    assert not diagnose(dump(*ranks)).hangs


@pytest.mark.parametrize(("turns", "cpu", "state"), [(60, 0.05, "slow"), (60, 0.001, "hung"), (2, 0.05, "hung")])
def test_a_late_rank_that_sleeps_between_pieces_of_work_is_slow(turns: int, cpu: float, state: str) -> None:
    decodes = thread("decode_one rollout.py:44", "generate rollout.py:52", "fit train.py:80")
    late = _twice(decodes, turns, cpu, id="rank1", pid=2, backends="gloo")
    verdict = diagnose(dump(_twice(collective(), 0, backends="gloo"), late))
    assert verdict.state == state


def test_a_reward_that_computes_at_other_lines_is_slow_and_no_false_alarm() -> None:
    """Five looks at one long function say no more than that it is long."""

    def at(line: int) -> Thread:
        return thread(
            f"find_longest_match difflib.py:{line}", "reward train.py:20", "<module> train.py:30", active=True
        )

    late = process(at(300), pid=2)
    late.samples = [Sample((at(300 + n),), float(n), cpu_seconds=1.0 + n) for n in range(5)]
    waits = process(collective(), id="rank1", pid=3)
    waits.samples = [Sample((collective(),), float(n), cpu_seconds=1.0) for n in range(5)]
    verdict = diagnose(dump(late, waits))
    assert (verdict.state, verdict.confidence == "certain") == ("slow", False)
    assert "user-code" in verdict.candidates


@pytest.mark.parametrize(
    ("commands", "open_"),
    [
        ((), True),
        (("ray::IDLE", "/venv/bin/python ray/_private/workers/default_worker.py --node-ip-address=127.0.0.1"), True),
        # An actor is there, and may have lost what it was asked.
        (("ray::IDLE", "ray::Collector"), False),
    ],
)
def test_before_ray_says_that_there_is_no_place_it_is_as_likely_as_any_wait(
    commands: tuple[str, ...], open_: bool
) -> None:
    driver = process(
        thread("get ray/_private/worker.py:3009", "<module> train.py:73"),
        id="driver", role="driver", command="python train.py",
    )  # fmt: skip
    workers = [
        process(
            thread("main_loop ray/_private/worker.py:1069"), id=f"worker:{pid}", role="worker", command=command, pid=pid
        )
        for pid, command in enumerate(commands, start=2)
    ]
    verdict = diagnose(dump(driver, *workers))
    assert verdict.cause == "ray-wait"
    assert (verdict.confidence == "undecided") is open_
    assert ("ray-resources" in verdict.candidates) is open_
