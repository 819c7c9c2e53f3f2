from __future__ import annotations

import pytest

from harness.processes.sampling.model import ProcessEntry, SampleEntry
from harness.processes.sampling.take import computes


def entry(*looks: tuple[float, float]) -> ProcessEntry:
    """A process with a sample for each (seconds since the first, CPU seconds so far)."""
    samples = [
        SampleEntry(way="py-spy", at=at, state="S", cpu_seconds=cpu, file=f"7.{number}.json")
        for number, (at, cpu) in enumerate(looks)
    ]
    return ProcessEntry(pid=7, samples=samples)


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([(0.0, 1.0)], False),
        ([(0.0, 1.0), (2.0, 1.0)], False),
        ([(0.0, 1.0), (2.0, 1.1)], False),
        ([(0.0, 1.0), (2.0, 1.9)], True),
        # A tick or two of the kernel's, which having its stacks read may cost it, however short the gap was.
        ([(0.0, 1.0), (0.0, 1.01)], False),
        ([(0.0, 1.0), (0.05, 1.01)], False),
        ([(0.0, 1.0), (0.05, 1.02)], False),
        ([(0.0, 1.0), (0.05, 1.05)], True),
    ],
)
def test_who_used_a_good_part_of_a_core_computes(looks: list[tuple[float, float]], expected: bool) -> None:
    assert computes(entry(*looks)) is expected


def test_samples_without_stacks_tell_nothing() -> None:
    gone = ProcessEntry(pid=7, samples=[SampleEntry(way="proc", at=at, state="R", cpu_seconds=at) for at in (0.0, 1.0)])
    assert computes(gone) is False
