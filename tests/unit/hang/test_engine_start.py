"""An inference server that starts: its parts wait for each other, and whether that hangs is told by who works."""

from __future__ import annotations

import pytest

from harness.hang.decide import diagnose
from harness.hang.model import Process, Role, Sample, Thread
from tests.unit.hang.build import dump, process, thread

FRONT = thread(
    "poll zmq/sugar/poll.py:106", "wait_for_engine_startup vllm/v1/engine/utils.py:1398", "main vllm/serve.py:9"
)
CORE = thread(
    "select selectors.py:415", "wait multiprocessing/connection.py:947",
    "WorkerProc.wait_for_ready vllm/v1/executor/multiproc_executor.py:799", "run vllm/v1/engine/core.py:144",
)  # fmt: skip
ALLOCATES = thread("allocate_kv_cache vllm/v1/worker/utils.py:596", "worker_main vllm/v1/executor/x.py:9", active=True)
LOADS = thread("load vllm/model_loader.py:50", "worker_main vllm/v1/executor/x.py:8", active=True)
SLEEPS = thread("read vllm/model_loader.py:50", "worker_main vllm/v1/executor/x.py:8", active=False)


def twice(first: Thread, second: Thread, name: str, role: Role, pid: int, cpu: float = 0.0) -> Process:
    found = process(first, id=name, role=role, pid=pid)
    found.samples = [Sample((first,), 0.0, cpu_seconds=1.0), Sample((second,), 2.0, cpu_seconds=1.0 + cpu)]
    return found


@pytest.mark.parametrize(
    ("first", "second", "cpu", "state"),
    [(LOADS, ALLOCATES, 2.0, "slow"), (ALLOCATES, ALLOCATES, 2.0, "slow"), (SLEEPS, SLEEPS, 0.0, "hung")],
    ids=["gets on", "computes", "sleeps"],
)
def test_a_start_is_slow_as_long_as_the_worker_works(first: Thread, second: Thread, cpu: float, state: str) -> None:
    worker = twice(first, second, "driver", "driver", 3, cpu)
    fronts = [twice(FRONT, FRONT, "server", "server", 1), twice(CORE, CORE, "server:2", "server", 2)]
    verdict = diagnose(dump(*fronts, worker))
    assert (verdict.state, verdict.cause) == (state, "init")
    if state == "slow":
        assert verdict.laggards == ["driver"]
        assert "py-spy dump --pid 3   # what keeps driver" in verdict.next


def test_ranks_that_wait_for_the_first_meeting_hang_whoever_else_works() -> None:
    joins = thread("init_process_group torch/distributed/distributed_c10d.py:1700", "main train.py:9")
    ranks = [twice(joins, joins, f"rank{rank}", "rank", rank + 1) for rank in range(2)]
    beside = twice(LOADS, ALLOCATES, "driver", "driver", 9, 2.0)
    assert diagnose(dump(*ranks, beside)).state == "hung"
