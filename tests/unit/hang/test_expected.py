"""Expected against found: who is missing, and what became of them."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from harness.hang.expected import add_ended, missing_ranks, recognise_zombies
from harness.processes.record import ProcessRecord
from harness.processes.sampling.model import ProcessEntry


def rank(number: int, size: int, job: str = "127.0.0.1:1", **more: Any) -> ProcessEntry:
    """A rank that was found."""
    return ProcessEntry(
        **{"role": "rank", "rank": number, "world_size": size, "job": job, "pid": number + 10, "ppid": 5, "host": "a",
         "command": "python train.py", **more}
    )  # fmt: skip


def record(pid: int, code: int | None, signal: str | None = None, command: str = "python train.py") -> ProcessRecord:
    """A process that `make run` saw end."""
    now = datetime.now(timezone.utc)
    return ProcessRecord(
        pid=pid, parent=5, name="python", command=command, start_ticks=pid, started=now, ended=now, exit_code=code,
        signal=signal,
    )  # fmt: skip


def test_a_store_on_the_loopback_means_that_all_ranks_are_here() -> None:
    assert [entry.rank for entry in missing_ranks([rank(0, 4), rank(2, 4)])] == [1, 3]


def test_ranks_of_nodes_that_nobody_asked_are_not_missing() -> None:
    node: dict[str, Any] = {"job": "node0:1", "local_world_size": 2}
    found = [rank(2, 8, local_rank=0, **node), rank(4, 8, local_rank=0, **node), rank(5, 8, local_rank=1, **node)]
    assert [entry.rank for entry in missing_ranks(found)] == [3]
    assert missing_ranks([rank(2, 8, job="node0:1")]) == []


def test_two_jobs_on_one_machine_have_their_own_ranks() -> None:
    found = [rank(0, 2, "127.0.0.1:1"), rank(0, 2, "127.0.0.1:2"), rank(1, 2, "127.0.0.1:2")]
    assert [(entry.rank, entry.job) for entry in missing_ranks(found)] == [(1, "127.0.0.1:1")]


def test_a_zombie_beside_the_ranks_is_the_one_that_is_missing() -> None:
    zombie = ProcessEntry(pid=11, ppid=5, host="a", state="Z", exit_code=-9)
    stranger = ProcessEntry(pid=12, ppid=6, host="a", state="Z")
    entries = [rank(0, 3), rank(2, 3), zombie, stranger]
    absent = missing_ranks(entries)
    recognise_zombies(entries, absent)
    assert absent == []
    assert (zombie.id, zombie.role, zombie.rank) == ("rank1", "rank", 1)
    assert stranger.rank is None


def test_two_zombies_for_one_rank_are_left_alone() -> None:
    zombies = [ProcessEntry(pid=pid, ppid=5, host="a", state="Z") for pid in (11, 12)]
    entries = [rank(0, 2), *zombies]
    absent = missing_ranks(entries)
    recognise_zombies(entries, absent)
    assert [entry.rank for entry in absent] == [1]


def test_an_exit_code_that_was_kept_goes_to_the_missing_rank() -> None:
    entries = [rank(0, 2)]
    absent = missing_ranks(entries)
    assert add_ended(entries, absent, [record(11, None, "SIGKILL")], "runs/x") == []
    assert [(e.rank, e.pid, e.exit_code, e.missing) for e in absent] == [(1, 11, -9, False)]


def test_others_that_failed_are_named_where_they_ran_the_same_program() -> None:
    entries = [rank(0, 1)]
    ended = [record(20, 3), record(21, 0), record(22, 1, command="git status")]
    assert [(e.pid, e.exit_code) for e in add_ended(entries, [], ended, "runs/x")] == [(20, 3)]
