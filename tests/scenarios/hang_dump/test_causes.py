"""Real jobs on gloo that hang in the ways people meet: the command names who it is and why."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.hanging import Dump, Job, hang_dump
from tests.support.harness import free_port, wait_for

# Program: ranks, the right causes, the laggards; who computes on.
CASES: dict[str, tuple[int, set[str], list[str], tuple[int, ...]]] = {
    "cleanup": (3, {"cleanup"}, ["rank1"], ()),
    "different_collectives": (3, {"collective-mismatch"}, ["rank0"], ()),
    "crossed_groups": (2, {"cross-group", "collective-mismatch"}, [], ()),
    "late_to_init": (2, {"init"}, ["rank1"], ()),
    "data_worker": (2, {"data-worker"}, ["rank1"], ()),
    "holds_gil": (2, {"gil-held"}, ["rank0"], ()),
    "python_loop": (2, {"python-loop"}, ["rank1"], (1,)),
    "lost_await": (2, {"async-lost"}, ["rank1"], ()),
    "one_after_another": (2, {"uneven-steps", "p2p-order", "collective-mismatch"}, ["rank0"], ()),
}


def dump_of(job: Job, runs: Path, *arguments: str) -> Dump:
    """Dump exactly this job."""
    return hang_dump(runs, "--pids", ",".join(map(str, job.pids)), *arguments)


@pytest.mark.parametrize("name", CASES)
def test_a_hanging_job_gets_its_cause_and_its_laggard(name: str, ranks: Job, runs: Path) -> None:
    world, causes, laggards, busy = CASES[name]
    ranks.start(name, world).settle(busy)
    dump = dump_of(ranks, runs)
    assert (dump.ended.code, dump.verdict["state"]) == (1, "hung"), dump.ended
    assert {dump.verdict["cause"], *dump.verdict["candidates"]} & causes, dump.ended
    assert dump.verdict["laggards"] == laggards or not laggards, dump.ended
    if name in MORE:
        MORE[name](ranks, runs)


def sizes_are_looked_at_on_request(ranks: Job, runs: Path) -> None:
    """LOCALS=1 gives types and sizes of the tensors in the blocked calls."""
    dump = dump_of(ranks, runs, "--locals")
    assert dump.entry("rank1")["blocked_call"] == "all_reduce(tensor=float32[4])"
    assert dump.entry("rank0")["blocked_call"].startswith("broadcast(tensor=float32[4]")


def await_chains_decide(ranks: Job, runs: Path) -> None:
    """What tasks await is in every dump: stacks don't show it."""
    dump = dump_of(ranks, runs)
    assert (dump.verdict["cause"], dump.verdict["confidence"]) == ("async-lost", "certain")
    assert any("one_rollout" in text for text in dump.verdict["evidence"])
    assert any("nothing can wake up its tasks" in text for text in dump.verdict["evidence"])


# What else is seen on a job that hangs already: importing torch takes longer than everything else here.
MORE = {"different_collectives": sizes_are_looked_at_on_request, "lost_await": await_chains_decide}


def test_a_stopped_rank_is_named_and_stays_stopped(ranks: Job, runs: Path) -> None:
    ranks.start("same_line", 3)
    os.kill(ranks.pids[2], signal.SIGSTOP)
    dump = dump_of(ranks.settle(), runs)
    assert (dump.verdict["cause"], dump.verdict["confidence"]) == ("stopped", "certain")
    assert dump.verdict["laggards"] == ["rank2"]
    assert dump.entry("rank2")["samples"][0]["way"] == "py-spy --nonblocking"
    state = Path(f"/proc/{ranks.pids[2]}/stat").read_text().rpartition(")")[2].split()[0]
    assert state == "T"


def test_a_rank_that_is_gone_is_missing(ranks: Job, runs: Path) -> None:
    ranks.start("dead_peer", 3)
    ranks.processes[1].wait()
    dump = dump_of(ranks.settle(), runs)
    assert dump.verdict["cause"] in {"dead-peer", "init"}, dump.ended
    assert dump.verdict["laggards"] == ["rank1"]


def test_a_healthy_job_does_not_hang(ranks: Job, runs: Path) -> None:
    ranks.start("healthy", 2)
    dump = dump_of(ranks, runs)
    assert dump.ended.code == 0, dump.ended
    assert dump.verdict["state"] in {"slow", "unknown"}


def test_torchrun_is_found_with_its_ranks(ranks: Job, runs: Path) -> None:
    """Nothing is told but a word of the command line; the launcher is no rank, its ranks are no children of its."""
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node=2", "--master-addr=127.0.0.1"]
    ranks.launch([*launcher, f"--master-port={free_port()}"], "different_collectives")
    wait_for("both ranks' ready", lambda: ranks.log(0).count("ready") == 2)
    ranks.settle_all()
    dump = hang_dump(runs, "--match", str(ranks.folder))
    assert dump.verdict["cause"] == "collective-mismatch", dump.ended
    assert sorted(entry["id"] for entry in dump.manifest["processes"]) == ["launcher", "rank0", "rank1"]
    # By their threads, the ranks belong to a process group, and the launcher doesn't.
    backends = {entry["id"]: entry.get("backends", "") for entry in dump.manifest["processes"]}
    assert backends == {"launcher": "", "rank0": "gloo", "rank1": "gloo"}


def test_the_log_of_the_one_that_left_is_read(ranks: Job, runs: Path) -> None:
    """Its output goes to a file, so the traceback that it hid is there."""
    ranks.start("swallowed", 2).settle()
    dump = dump_of(ranks, runs)
    assert dump.verdict["cause"] == "exception-swallowed"
    assert any("ValueError: bad sample" in text for text in dump.verdict["evidence"])
