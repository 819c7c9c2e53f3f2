"""What the ranks' recorders say together."""

from __future__ import annotations

from harness.hang.model import Recorded, Recording
from harness.hang.recorded import compare


def recording(rank: int, *operations: tuple[str, int, str, str], done: dict[str, int] | None = None) -> Recording:
    """Operations as (group, number, name, sizes)."""
    done = done or {}
    listed = [Recorded(g, n, name, sizes, "F", False, n <= done.get(g, 0)) for g, n, name, sizes in operations]
    last = {g: max(n for group, n, _, _ in operations if group == g) for g, _, _, _ in operations}
    return Recording(
        rank, listed, {group: [0, 1, 2] for group in last}, last, {group: done.get(group, 0) for group in last}
    )


def test_another_operation_and_the_odd_rank() -> None:
    found = compare([recording(rank, ("0", 1, "barrier" if rank == 2 else "all_reduce", "4")) for rank in range(3)])
    assert (found.kind, found.ranks) == ("type", [2])


def test_of_two_ranks_none_is_odd() -> None:
    found = compare([recording(rank, ("0", 1, "barrier" if rank else "all_reduce", "4")) for rank in range(2)])
    assert (found.kind, found.ranks) == ("type", [])


def test_sizes_matter_only_where_they_must_be_equal() -> None:
    assert compare([recording(rank, ("0", 1, "all_reduce", str(rank == 1))) for rank in range(3)]).kind == "size"
    assert compare([recording(rank, ("0", 1, "all_to_all", str(rank))) for rank in range(3)]).kind == "same"


def test_who_never_came() -> None:
    found = compare([recording(0, ("0", 5, "x", "")), recording(1, ("0", 5, "x", "")), recording(2, ("0", 4, "x", ""))])
    assert (found.kind, found.ranks) == ("behind", [2])
    assert "number 5" in found.text


def test_a_rank_with_a_recorder_but_nothing_in_the_group_never_came_either() -> None:
    found = compare([recording(0, ("7", 1, "x", "")), recording(1, ("0", 1, "y", ""))])
    assert found.kind in ("behind", "cycle")


def test_two_groups_that_wait_for_each_other() -> None:
    one = recording(0, ("a", 2, "x", ""), ("b", 1, "y", ""))
    other = recording(1, ("a", 1, "x", ""), ("b", 2, "y", ""))
    assert compare([one, other]).kind == "cycle"


def test_everything_done() -> None:
    assert compare([recording(rank, ("0", 3, "x", "4"), done={"0": 3}) for rank in range(3)]).kind == "done"
