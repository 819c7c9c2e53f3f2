"""What the recorders say of sends and receives."""

from __future__ import annotations

import json

import pytest

from harness.hang.decide import diagnose
from harness.hang.model import Recorded, Recording
from harness.hang.readers.recorder import read
from harness.hang.recorded import compare
from tests.unit.hang.build import C10D, dump, process, thread


def recording(rank: int, *calls: str, size: int = 4, world: int = 4, done: bool = False) -> Recording:
    """Calls of one rank that are under way: ``send 0->1``, ``recv 1<-0``."""
    operations = [
        Recorded("0", number, call, f"[[{size}]] → [[{size}]]", "Float → Float", True, done)
        for number, call in enumerate(calls, start=1)
    ]
    return Recording(rank, operations, {"0": list(range(world))})


def test_both_sides_with_other_sizes() -> None:
    found = compare([recording(0, "send 0->1", size=8), recording(1, "recv 1<-0", size=6)])
    assert (found.kind, found.ranks) == ("size", [])
    assert "rank 0 sends to rank 1 [[8]]; rank 1 receives from rank 0 [[6]]" in found.text


def test_both_sides_with_another_shape_of_as_many_elements() -> None:
    sender, receiver = recording(0, "send 0->1", size=8), recording(1, "recv 1<-0")
    receiver.operations[0].sizes = "[[2, 4]] → [[2, 4]]"
    assert compare([sender, receiver]).kind == "same"


def test_everybody_sends_first() -> None:
    found = compare([recording(rank, f"send {rank}->{(rank + 1) % 3}") for rank in range(3)])
    assert found.kind == "order"
    assert "ranks 0-2" in found.text


def test_two_that_receive_from_each_other_while_a_third_waits_for_one_of_them() -> None:
    found = compare([recording(0, "recv 0<-1"), recording(1, "recv 1<-0"), recording(2, "recv 2<-1")])
    assert (found.kind, "ranks 0-1" in found.text) == ("order", True)


def test_who_never_came_is_at_the_end_of_the_chain() -> None:
    found = compare([recording(0, "recv 0<-1"), recording(1, "recv 1<-2"), recording(2)])
    assert (found.kind, found.ranks) == ("late", [2])


def test_a_rank_without_a_recorder_is_not_blamed() -> None:
    assert compare([recording(0, "recv 0<-3"), recording(1)]).kind == "done"


def test_what_is_done_says_nothing() -> None:
    assert compare([recording(0, "send 0->1", done=True), recording(1)]).kind == "done"


def test_ranks_of_a_group_are_not_those_of_the_world() -> None:
    sender, other = recording(4, "send 0->1"), recording(6)
    for one in (sender, other):
        one.members = {"0": [4, 6]}
    assert compare([sender, other]).ranks == [6]


def test_a_collective_of_another_type_counts_for_more() -> None:
    ranks = [recording(rank, "send 0->1" if rank == 0 else "recv 1<-0", size=rank, world=2) for rank in (0, 1)]
    for rank, one in enumerate(ranks):
        name = "all_reduce" if rank else "barrier"
        one.operations.append(Recorded("1", 1, name, "[[4]] → [[4]]", "Float → Float", False, False))
    assert compare(ranks).kind == "type"


@pytest.mark.parametrize("first", [True, False])
def test_calls_as_nccl_writes_them(first: bool) -> None:
    """Sends and receives meet in the verdict, as PyTorch's recorder names them."""

    def written(rank: int, name: str) -> bytes:
        entry = {
            "process_group": ["0", "default_pg"], "collective_seq_id": 3, "p2p_seq_id": 1, "is_p2p": True,
            "profiling_name": f"nccl:{name}", "input_sizes": [[4]], "output_sizes": [[4]],
            "input_dtypes": ["Float"], "output_dtypes": ["Float"], "state": "started", "retired": False,
        }  # fmt: skip
        group = {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}
        return json.dumps({"version": "2.10", "pg_config": {"0": group}, "pg_status": {}, "entries": [entry]}).encode()

    names = ("send 0->1", "send 1->0") if first else ("recv 0<-1", "recv 1<-0")
    recordings = [read(written(rank, name), rank) for rank, name in enumerate(names)]
    stacks = [thread(f"{name[:4]} {C10D}:2753", "step train.py:9", "<module> train.py:99") for name in names]
    ranks = [process(stack, id=f"rank{rank}", pid=rank + 1) for rank, stack in enumerate(stacks)]
    verdict = diagnose(dump(*ranks, recordings=recordings))
    assert (verdict.cause, verdict.confidence) == ("p2p-order", "certain")
