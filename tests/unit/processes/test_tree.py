"""Who descends from whom."""

from __future__ import annotations

from harness.processes.stat import Stat
from harness.processes.tree import Node, Process, build_tree, descendants_of


def stat(pid: int, ppid: int, start_ticks: int | None = None) -> Stat:
    ticks = pid if start_ticks is None else start_ticks
    return Stat(pid, f"p{pid}", "S", ppid, pid, pid, 1, ticks, 0.0, True, 0)


def table(*pairs: tuple[int, int]) -> dict[int, Stat]:
    return {pid: stat(pid, ppid) for pid, ppid in pairs}


def shape(nodes: list[Node]) -> dict[int, object]:
    return {node.process.pid: shape(node.children) for node in nodes}


def test_descendants_come_with_parents_first() -> None:
    stats = table((5, 10), (10, 1), (7, 5), (6, 5), (99, 1), (98, 99))
    assert descendants_of([10], stats) == [5, 6, 7]


def test_a_root_need_not_be_among_the_processes() -> None:
    assert descendants_of([10], table((11, 10), (12, 11))) == [11, 12]


def test_a_root_below_another_root_is_not_named() -> None:
    assert descendants_of([10, 11], table((11, 10), (12, 11))) == [12]


def test_a_child_with_a_lower_number_than_its_parent_is_found() -> None:
    assert descendants_of([30000], table((30001, 30000), (301, 30001))) == [30001, 301]


def test_a_circle_made_by_numbers_given_anew_ends() -> None:
    assert descendants_of([1], table((2, 3), (3, 2), (4, 1))) == [4]
    assert descendants_of([2], table((2, 3), (3, 2))) == [3]


def test_nothing_descends_from_a_process_without_children() -> None:
    assert descendants_of([10], table((10, 1), (11, 1))) == []


def tree(*stats: Stat) -> dict[int, object]:
    return shape(build_tree(Process(one, None, 0.0) for one in stats))


def test_processes_are_put_under_their_parents() -> None:
    assert tree(stat(1, 0), stat(2, 1), stat(3, 2), stat(4, 1)) == {1: {2: {3: {}}, 4: {}}}


def test_one_whose_parent_is_not_among_them_is_a_root() -> None:
    assert tree(stat(7, 1), stat(8, 7), stat(9, 2)) == {7: {8: {}}, 9: {}}


def test_a_parent_younger_than_its_child_is_not_its_parent() -> None:
    assert tree(stat(5, 1, start_ticks=900), stat(6, 5, start_ticks=100)) == {5: {}, 6: {}}


def test_a_process_that_claims_to_be_its_own_parent_is_a_root() -> None:
    assert tree(stat(0, 0), stat(2, 0)) == {0: {2: {}}}
