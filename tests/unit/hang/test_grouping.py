"""Groups, rank sets and the merged tree."""

from __future__ import annotations

from harness.hang.grouping import divergence, names, ranges, shared_way, tree
from harness.hang.groups import minority
from harness.hang.scene import build
from tests.unit.hang.build import collective, dump, process, stack, thread


def test_rank_sets_are_short() -> None:
    assert ranges([9, 0, 1, 2, 3, 4, 5, 6]) == "0-6,9"
    assert ranges(range(0, 1000, 8)) == "0-992:8"
    assert ranges([]) == ""
    assert names(["rank0", "rank1", "driver", "rank1"]) == "ranks 0-1, driver"
    assert names(["rank7"]) == "rank 7"
    assert names([f"worker:{n}" for n in range(9)], most=2) == "worker:0, worker:1, 7 more"
    scattered = [f"rank{n * n}" for n in range(200)]
    assert len(names(scattered)) < 100
    assert "(200 in all)" in names(scattered)


def test_the_tree_merges_from_the_outside_in() -> None:
    one, other = stack("a x.py:1", "main x.py:9").frames, stack("b x.py:2", "main x.py:9").frames
    [root] = tree([one, other])
    assert (root.frame.name, root.groups) == ("main", [0, 1])
    assert [(child.frame.name, child.groups) for child in root.children.values()] == [("a", [0]), ("b", [1])]
    assert len(tree([stack("f x.py:1").frames, stack("f x.py:2").frames])) == 2
    assert len(tree([stack("f x.py:1").frames, stack("f x.py:2").frames], lines=False)) == 1


def test_where_two_ways_part() -> None:
    one, other = (
        stack("a x.py:1", "main x.py:5", "top x.py:9").frames,
        stack("b x.py:2", "main x.py:7", "top x.py:9").frames,
    )
    shared = divergence(one, other)
    assert shared is not None
    assert [frame.line for frame in shared] == [5, 7]
    assert shared_way([one, other]) == 2
    assert shared_way([one]) == 0


def test_groups_are_told_apart_by_more_than_stacks() -> None:
    scene = build(
        dump(
            process(collective(), id="rank0"),
            process(collective(), id="rank1", state="T"),
            process(collective(), id="rank2"),
        )
    )
    assert sorted(len(group) for group in scene.groups) == [1, 2] or len(scene.groups) == 3


def test_a_minority_needs_a_clear_majority() -> None:
    scene = build(dump(*(process(thread(f"f{rank // 3} a.py:1"), id=f"rank{rank}") for rank in range(4))))
    assert [group.ids for group in minority(scene.groups, lambda group: group.wait.spot)] == [["rank3"]]
    scene = build(dump(*(process(thread(f"f{rank % 2} a.py:1"), id=f"rank{rank}") for rank in range(4))))
    assert minority(scene.groups, lambda group: group.wait.spot) == []
