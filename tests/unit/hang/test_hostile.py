"""Whatever is in a file, reading it ends in data or in an error that says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from harness.errors import UsageError  # noqa: E402
from harness.hang.decide import diagnose  # noqa: E402
from harness.hang.grouping import ranges  # noqa: E402
from harness.hang.readers import cluster, pyspy_json, read, recorder  # noqa: E402
from harness.hang.readers.interning import Interner  # noqa: E402
from harness.hang.readers.logs import Hints  # noqa: E402
from harness.hang.readers.text import TextReader  # noqa: E402
from harness.printable import printable, printable_all  # noqa: E402
from tests.unit.hang.build import collective, dump, process, pyspy, sampled, thread  # noqa: E402

names = st.text(min_size=1, max_size=12)
threads = st.lists(
    st.builds(
        lambda frames, name, active: pyspy(*(f"{n} m.py:{i}" for i, n in enumerate(frames)), name=name, active=active),
        st.lists(names, min_size=1, max_size=6),
        st.none() | names,
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)
# Lines that look like what the reader knows, broken in every way.
FRAGMENTS = """Process 12: python t.py
Thread 12 (idle): "MainThread"
    f (a.py:1)
        Locals:
            x: 1

Thread 0x7f (most recent call first):
  File "a.py", line 3 in f
Traceback for thread 5 (py) [Has the GIL] (most recent call last):
    (Python) File "a.py", line 3, in f
#0  0x00 in f () from libc.so.6
# Rank 0-3
==== PID 5 ====
[rank3]: x
Timeout (0:00:01)!
(A pid=5) y
Parent Process 3: x
# all ranks
Thread 1 (Thread 0x7f (LWP 4)):
rank 99999999-1"""
fragments = st.sampled_from(FRAGMENTS.splitlines())
lines = st.lists(
    st.one_of(fragments, st.text(max_size=60), st.builds(lambda a, b: a + b, fragments, st.text(max_size=10))),
    max_size=40,
)


@given(st.binary(max_size=400))
def test_any_bytes(data: bytes) -> None:
    for reader in (
        lambda: pyspy_json.read(data, Interner()),
        lambda: recorder.read(data, 0),
        lambda: cluster.read_tasks(data),
    ):
        try:
            reader()
        except (ValueError, RecursionError):
            continue
    cluster.read_actors(data)


@given(threads, st.integers(0, 100), st.sampled_from([None, 1]))
def test_pyspy_json_cut_anywhere(entries: list[dict[str, Any]], percent: int, indent: int | None) -> None:
    text = json.dumps(entries, indent=indent)
    cut = text.encode()[: len(text) * percent // 100]
    whole = [[frame["name"] for frame in entry["frames"]] for entry in entries]
    try:
        [found] = pyspy_json.read(cut, Interner())
    except ValueError:
        assert percent < 100
        return
    read_back = [[frame.name for frame in one.stack.frames] for one in found.threads]
    assert read_back == whole[: len(read_back)]
    assert percent < 100 or (found.whole and read_back == whole)


@given(lines)
def test_any_text(text: list[str]) -> None:
    reader = TextReader(Interner(), Hints())
    reader.feed_all(text)
    for found in reader.processes:
        assert 1 <= len(found.samples) <= 2
        assert all(sample for sample in found.samples)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    data=st.one_of(st.binary(max_size=300), lines.map(lambda found: "\n".join(found).encode("utf-8", "replace"))),
    name=st.sampled_from(["rank0.json", "manifest.json", "trace_0", "x.txt", "d.tar", "d.tgz"]),
)
def test_any_file(data: bytes, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    try:
        verdict = diagnose(read(str(tmp_path / name)))
    except UsageError:
        pass
    else:
        json.dumps(printable_all(verdict.as_dict())).encode()
    (tmp_path / name).unlink()


@given(st.text())
def test_shown_text_moves_no_cursor_and_can_be_encoded(text: str) -> None:
    shown = printable(text)
    shown.encode("utf-8")
    assert not any(ord(character) < 32 and character != "\t" for character in shown)
    assert not set(shown) & set("\x1b\x7f\x9b\x90\u202e\u2066")


@given(st.sets(st.integers(0, 400)))
def test_ranges_say_exactly_what_they_stand_for(numbers: set[int]) -> None:
    said: set[int] = set()
    for part in filter(None, ranges(numbers).split(",")):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        said |= set(range(int(first), int(last or first) + 1, int(step or 1)))
    assert said == numbers


kinds = st.sampled_from(
    [
        collective(),
        collective("barrier", 12),
        collective("all_gather", 10),
        collective("recv"),
        collective("destroy_process_group"),
        thread("f train.py:3", active=True, gil=True),
        thread("f train.py:4", gil=True),
        thread("main_loop ray/_private/worker.py:9"),
        thread("get_objects ray/_private/worker.py:893", "fit t.py:1"),
        thread("select selectors.py:1", "_run_once asyncio/base_events.py:1"),
        thread("save torch/serialization.py:1", "save_checkpoint t.py:2"),
        thread("verify math_verify/grader.py:1", active=True),
        thread("_try_get_data torch/utils/data/dataloader.py:1"),
        thread("synchronize torch/cuda/__init__.py:1"),
        thread(),
    ]
)
roles = st.sampled_from(["rank", "driver", "server", "worker", "child", ""])


@settings(deadline=None)
@given(
    st.lists(st.tuples(kinds, kinds, roles, st.floats(0, 6), st.sampled_from(["", "S", "T", "Z", "D"])), max_size=6),
    st.integers(0, 8),
)
def test_any_mixture_of_processes_gives_a_sound_verdict(
    rows: list[tuple[Any, Any, Any, float, str]], world: int
) -> None:
    processes = [
        sampled(
            first,
            second,
            cpu,
            id=f"rank{n}" if role == "rank" else f"{role or 'x'}:{n}",
            role=role,
            state=state,
            pid=n + 1,
        )
        if cpu > 3
        else process(
            first, id=f"rank{n}" if role == "rank" else f"{role or 'x'}:{n}", role=role, state=state, pid=n + 1
        )
        for n, (first, second, role, cpu, state) in enumerate(rows)
    ]
    verdict = diagnose(dump(*processes, world_size=world or None))
    assert verdict.state in ("hung", "slow", "idle", "done", "unknown")
    assert verdict.confidence in ("certain", "likely", "undecided")
    assert len(verdict.candidates) <= 2
    assert verdict.title
    known = {row.id for row in verdict.processes}
    assert set(verdict.laggards) <= known
    if verdict.confidence == "undecided" and verdict.state == "hung":
        assert verdict.cause in verdict.candidates
    assert not any("{" in step and "}" in step for step in verdict.next)
