"""Each way of writing stacks down is read, and gives the same frames."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import tarfile
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.hang.folder import Manifest, ProcessEntry, SampleEntry, dump_name, write_folder
from harness.hang.model import Dump, Frame, Process
from harness.hang.readers import read, sources
from harness.hang.readers.interning import INNERMOST, OUTERMOST, Interner
from harness.hang.readers.logs import Hints
from harness.hang.readers.paths import short
from harness.hang.readers.text import TextReader
from tests.unit.hang.build import pyspy, pyspy_text


def of_text(text: str, tmp_path: Path, name: str = "paste.txt") -> Dump:
    (tmp_path / name).write_text(text)
    return read(str(tmp_path / name))


def tops(process: Process, sample: int = -1) -> dict[str, str]:
    return {thread.name: str(thread.stack.frames[0]) for thread in process.samples[sample].threads}


def test_pyspy_text_with_locals_and_native_frames(tmp_path: Path) -> None:
    dump = of_text(
        """Process 41: python -u train.py --rank 3
Python v3.11.7 (/usr/bin/python3.11)

Thread 41 (idle): "MainThread"
    c10d::Work::wait(std::chrono::duration) (libtorch_cpu.so)
    all_reduce (torch/distributed/distributed_c10d.py:3252)
        Arguments:
            tensor: <Tensor at 0x7f (weights.py:12)>
        Locals:
            x: 1
    step (train.py:10)
    <module> (train.py:99)
Thread 55 (active+gil): "loader"
    work (data.py:4)
""",
        tmp_path,
    )
    [process] = dump.processes
    assert (process.id, process.pid, process.command) == ("rank3", 41, "python -u train.py --rank 3")
    main, loader = process.threads
    assert [str(frame) for frame in main.stack.frames] == [
        "c10d::Work::wait(std::chrono::duration) (libtorch_cpu.so)",
        "all_reduce (torch/distributed/distributed_c10d.py:3252)",
        "step (train.py:10)",
        "<module> (train.py:99)",
    ]
    assert (main.active, main.holds_gil, loader.active, loader.holds_gil) == (False, False, True, True)


def test_the_loop_of_the_guide_run_twice_gives_two_samples(tmp_path: Path) -> None:
    one = "\n".join(
        [
            "========== PID {0} ==========",
            "Process {0}: python train.py",
            "Python v3.11",
            "",
            'Thread {0} (idle): "MainThread"',
            "    f (t.py:{1})",
            "",
        ]
    )
    dump = of_text(one.format(10, 1) + one.format(11, 1) + one.format(10, 2) + one.format(11, 1), tmp_path)
    assert [(process.id, len(process.samples)) for process in dump.processes] == [("worker:10", 2), ("worker:11", 2)]
    assert tops(dump.processes[0], 0) == {"MainThread": "f (t.py:1)"}
    assert tops(dump.processes[0], 1) == {"MainThread": "f (t.py:2)"}


def test_faulthandler_repeats_are_samples_and_the_main_thread_is_found(tmp_path: Path) -> None:
    block = """Timeout (0:00:05)!
Thread 0x00007f7d037a56c0 (most recent call first):
  File "/srv/app/fh.py", line {line} in worker
  File "/usr/lib/python3.11/threading.py", line 982 in run
  File "/usr/lib/python3.11/threading.py", line 1045 in _bootstrap_inner

Thread 0x00007f7d04206b80 (most recent call first):
  File "/srv/app/fh.py", line 5 in main
  File "/srv/app/fh.py", line 6 in <module>
"""
    [process] = of_text(block.format(line=2) + block.format(line=3), tmp_path, "rank2.log").processes
    assert (process.id, len(process.samples)) == ("rank2", 2)
    assert tops(process) == {"": "worker (app/fh.py:3)", "MainThread": "main (app/fh.py:5)"}


def test_pystack_prints_the_innermost_frame_last(tmp_path: Path) -> None:
    [process] = of_text(
        """Traceback for thread 31538 (python) [] (most recent call last):
    (Python) File "/usr/lib/python3.11/threading.py", line 1002, in _bootstrap
        self._bootstrap_inner()
    (Python) File "/usr/lib/python3.11/queue.py", line 171, in get
        self.not_empty.wait()
    (C) File "./nptl/futex-internal.c", line 57, in __futex_abstimed_wait (inlined) (/usr/lib/libc.so.6)

Traceback for thread 31535 (python) [Has the GIL] (most recent call last):
    (Python) File "/srv/t.py", line 8, in <module>
        outer()
    (Python) File "/srv/t.py", line 7, in outer
        time.sleep(60)
""",
        tmp_path,
    ).processes
    assert process.pid == 31535
    assert tops(process) == {"": "__futex_abstimed_wait (libc.so.6)", "MainThread": "outer (srv/t.py:7)"}
    assert [thread.holds_gil for thread in process.threads] == [False, True]


def test_gdb_backtraces(tmp_path: Path) -> None:
    [process] = of_text(
        """Thread 2 (Thread 0x7fd1b7fff700 (LWP 4712) "pt_nccl_watchdg"):
#0  0x00007fd1d0c5789d in syscall () from /lib/x86_64-linux-gnu/libc.so.6
#1  0x00007fd1ce4a1c21 in ncclCommAbort (comm=0x0) from /usr/lib/libnccl.so.2
Thread 1 (Thread 0x7fd1b7fff701 (LWP 4711) "python"):
#0  poll () at ../sysdeps/poll.c:29
""",
        tmp_path,
    ).processes
    assert tops(process) == {"pt_nccl_watchdg": "syscall (libc.so.6)", "python": "poll (../sysdeps/poll.c:29)"}


def test_ray_stack_headings_and_titles(tmp_path: Path) -> None:
    head = "Stack dump for ray 801 0.1 0.2 1234 567 ? SNl 10:00 0:03 ray::Actor.step\n"
    body = 'Process 801: ray::Actor.step\nPython v3.11\n\nThread 801 (idle): "MainThread"\n    f (a.py:1)\n'
    [process] = of_text(head + body, tmp_path).processes
    assert (process.id, process.role, process.pid) == ("worker:801", "worker", 801)


def test_lines_of_several_ranks_mixed_by_a_collector(tmp_path: Path) -> None:
    lines = [
        ("[rank0]:", "Thread 0x01 (most recent call first):"),
        ("[rank1]:", "Thread 0x02 (most recent call first):"),
        ("[rank0]:", '  File "/srv/t.py", line 1 in zero'),
        ("[rank1]:", '  File "/srv/t.py", line 2 in one'),
        ("[rank0]:", ""),
        ("(Worker pid=77, ip=10.0.0.1)", " Thread 0x03 (most recent call first):"),
        ("(Worker pid=77, ip=10.0.0.1)", '   File "/srv/t.py", line 3 in seven'),
    ]
    dump = of_text("".join(f"{prefix}{text}\n" for prefix, text in lines), tmp_path, "job.log")
    found = {process.id: tops(process)["MainThread"] for process in dump.processes}
    assert found == {"rank0": "zero (srv/t.py:1)", "rank1": "one (srv/t.py:2)", "driver": "seven (srv/t.py:3)"}


def test_headings_that_people_write(tmp_path: Path) -> None:
    text = """# Ranks 0-2, 5
Thread: "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py)
    forward (net.py:12)      ← here

# Rank 3
recv (torch/distributed/distributed_c10d.py:2799)
step (net.py:40)
"""
    dump = of_text(text, tmp_path)
    found = {process.id: tops(process)["MainThread"] for process in dump.processes}
    assert found.pop("rank3") == "recv (torch/distributed/distributed_c10d.py:2799)"
    assert found == dict.fromkeys(
        ["rank0", "rank1", "rank2", "rank5"], "all_reduce (torch/distributed/distributed_c10d.py)"
    )


def test_a_python_traceback_in_a_log_is_no_stack_of_a_process(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text(pyspy_text(pyspy("f a.py:1")))
    trace = 'Traceback (most recent call last):\n  File "t.py", line 3, in f\n    boom()\nValueError: bad\n'
    (tmp_path / "rank0.log").write_text(trace)
    dump = read(str(tmp_path))
    assert [process.id for process in dump.processes] == ["rank0"]
    assert [(hint.kind, hint.text, hint.rank) for hint in dump.hints] == [("traceback", "ValueError: bad", 0)]


@pytest.mark.parametrize("spelling", ["compact", "pretty", "reordered"])
def test_pyspy_json_in_any_spelling(spelling: str, tmp_path: Path) -> None:
    threads = [pyspy('evil"frames": b.py:2', "g b.py:3", name='x\n"y'), pyspy("f a.py:1")]
    if spelling == "reordered":
        threads = [dict(sorted(thread.items())) for thread in threads]
    text = json.dumps(threads, indent=2 if spelling == "pretty" else None)
    (tmp_path / "rank4.json").write_text(text)
    [process] = read(str(tmp_path)).processes
    assert (process.id, process.pid) == ("rank4", 7)
    assert tops(process) == {'x\n"y': 'evil"frames": (b.py:2)', "MainThread": "f (a.py:1)"}


def test_equal_stacks_are_one_object(tmp_path: Path) -> None:
    for rank in range(3):
        (tmp_path / f"rank{rank}.json").write_text(pyspy_text(pyspy("f a.py:1", "g b.py:2", pid=100 + rank)))
    one, two, three = read(str(tmp_path)).processes
    assert one.threads is two.threads is three.threads
    assert [one.pid, two.pid, three.pid] == [100, 101, 102]


def test_a_file_that_is_cut_keeps_its_whole_threads(tmp_path: Path) -> None:
    text = pyspy_text(pyspy("f a.py:1"), pyspy("g b.py:2", name="other"))
    (tmp_path / "rank0.json").write_text(text[: len(text) - 60])
    dump = read(str(tmp_path))
    assert tops(dump.processes[0]) == {"MainThread": "f (a.py:1)"}
    assert dump.notes == ["rank0.json is cut short; what is whole in it was read"]


def test_second_samples_and_children_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text(pyspy_text(pyspy("f a.py:1")))
    (tmp_path / "rank0.2.json").write_text(pyspy_text(pyspy("f a.py:2")))
    (tmp_path / "rank0.child91.json").write_text(pyspy_text(pyspy("h c.py:1", pid=91)))
    rank, child = sorted(read(str(tmp_path)).processes, key=lambda process: process.role, reverse=True)
    assert (rank.id, rank.role, len(rank.samples)) == ("rank0", "rank", 2)
    assert (child.id, child.role, child.owner, child.pid) == ("rank0", "child", "rank0", 91)


def test_what_hang_dump_writes_is_what_diagnose_reads(tmp_path: Path) -> None:
    entry = ProcessEntry(id="rank0", role="rank", rank=0, pid=7, state="S", host="node1", listens=True)
    entry.samples = [SampleEntry(file=dump_name(entry), cpu_seconds=1.5), SampleEntry(file=dump_name(entry, 2), at=5.0)]
    gone = ProcessEntry(id="rank1", role="rank", rank=1, missing=True)
    dumps = {
        dump_name(entry): pyspy_text(pyspy("f a.py:1")).encode(),
        dump_name(entry, 2): pyspy_text(pyspy("f a.py:2")).encode(),
    }
    write_folder(
        tmp_path / "d",
        Manifest(world_size=2, gap_seconds=5.0, processes=[entry, gone], unreachable={"node2": "no route"}),
        dumps,
    )
    dump = read(str(tmp_path / "d"))
    found, absent = dump.processes
    assert (found.host, found.listens, found.state, len(found.samples)) == ("node1", True, "S", 2)
    assert (found.samples[0].cpu_seconds, found.samples[1].at) == (1.5, 5.0)
    assert absent.missing
    assert absent.gone
    assert (dump.world_size, dump.gap_seconds) == (2, 5.0)
    assert dump.notes == ["node2 couldn't be asked: no route"]


@pytest.mark.parametrize("name", ["../../etc/x", "..", "a/b", "", "worker:12", "rank0"])
def test_no_id_leads_out_of_a_folder(name: str) -> None:
    found = dump_name(ProcessEntry(id=name, pid=5))
    assert "/" not in found
    assert not found.startswith(".")


def test_archives_are_read_and_their_names_do_no_harm(tmp_path: Path) -> None:
    archive = tmp_path / "dumps.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name in ("../../../rank0.json", "/abs/rank1.json"):
            data = pyspy_text(pyspy("f a.py:1")).encode()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        link = tarfile.TarInfo("rank2.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
        device = tarfile.TarInfo("rank3.json")
        device.type = tarfile.CHRTYPE
        tar.addfile(device)
    before = sorted(tmp_path.rglob("*"))
    dump = read(str(archive))
    assert sorted(process.source for process in dump.processes) == ["abs/rank1.json", "rank0.json"]
    assert sorted(tmp_path.rglob("*")) == before


def test_a_damaged_archive_gives_what_came_before(tmp_path: Path) -> None:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz", compresslevel=0) as tar:
        for rank in range(40):
            data = pyspy_text(pyspy(*(f"f{rank} a.py:{line}" for line in range(50)))).encode()
            member = tarfile.TarInfo(f"rank{rank}.json")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    (tmp_path / "d.tar.gz").write_bytes(whole.getvalue()[: len(whole.getvalue()) // 2])
    dump = read(str(tmp_path / "d.tar.gz"))
    assert 10 < len(dump.processes) < 40
    assert any("damaged" in note for note in dump.notes)


def test_a_packed_text(tmp_path: Path) -> None:
    text = b'Process 5: python t.py\n\nThread 5 (idle): "MainThread"\n    f (a.py:1)\n'
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text))
    assert [process.pid for process in read(str(tmp_path / "a.txt.gz")).processes] == [5]


def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rank1.json")
    (tmp_path / "rank0.json").write_text(pyspy_text(pyspy("f a.py:1")))
    assert [process.id for process in read(str(tmp_path)).processes] == ["rank0"]


@pytest.mark.parametrize(
    "content", [b"", b"\x00\x01\xff" * 500, b"hello\n", b'{"a": 1}', b"[1, 2]", b"[", b"\x80\x04."]
)
def test_unusable_input_is_wrong_usage(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(content)
    for path in (tmp_path, tmp_path / "x.json"):
        with pytest.raises(UsageError) as caught:
            read(str(path))
        assert caught.value.exit_code == 2
        assert caught.value.mend


def test_nothing_there() -> None:
    with pytest.raises(UsageError, match="There is no"):
        read("/nonexistent/folder")


def test_foreign_json_beside_dumps_is_only_noted(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text(pyspy_text(pyspy("f a.py:1")))
    (tmp_path / "config.json").write_text('{"lr": 1}')
    (tmp_path / "manifest.json").write_text('{"processes": 5, "world_size": "many"}')
    dump = read(str(tmp_path))
    assert [process.id for process in dump.processes] == ["rank0"]
    assert len(dump.notes) == 2


def test_a_text_of_any_length_keeps_two_samples_of_each_process() -> None:
    reader = TextReader(Interner(), Hints())
    block = ["Process 5: python t.py", "", 'Thread 5 (idle): "MainThread"', "    f (a.py:{})", "noise " * 50]
    reader.feed_all(line.format(number) for number in range(20_000) for line in block)
    assert [len(process.samples) for process in reader.processes] == [2]
    reader = TextReader(Interner(), Hints())
    reader.feed_all(line.format(number) for number in range(20_000) for line in block[2:4])
    assert [len(process.samples) for process in reader.processes] == [2]


def test_an_endless_line_comes_in_pieces() -> None:
    stream = io.BytesIO(b"x" * 5_000_000)
    pieces = [len(piece) for piece in sources.lines(b"", stream)]
    assert sum(pieces) == 5_000_000
    assert max(pieces) < 300_000


def test_an_endless_recursion_is_kept_short() -> None:
    frames = Interner().stack([]).frames
    assert frames == ()
    deep = Interner().stack([Frame("f", "a.py", number) for number in range(100_000)]).frames
    assert len(deep) == INNERMOST + OUTERMOST + 1
    assert "99780 calls left out" in deep[INNERMOST].name


@pytest.mark.parametrize(
    ("path", "shorter"),
    [
        ("/venv/lib/python3.11/site-packages/torch/nn/a.py", "torch/nn/a.py"),
        ("/usr/lib/python3.11/threading.py", "threading.py"),
        ("/usr/lib/python3/dist-packages/yaml/x.py", "yaml/x.py"),
        ("/home/me/verl/verl/workers/actor.py", "verl/workers/actor.py"),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "libc.so.6"),
        ("train.py", "train.py"),
        ("/home/me/job/train.py", "job/train.py"),
    ],
)
def test_paths_are_shortened_to_what_is_imported(path: str, shorter: str) -> None:
    assert short(path) == shorter


class _Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (os.mkdir, ("evil",))


def test_a_recorder_s_pickle_may_not_call_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    entries = {"entries": [_Evil()], "version": "2.5", "pg_config": {}}
    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps(entries))
    with pytest.raises(UsageError):
        read(str(tmp_path))
    assert not (tmp_path / "evil").exists()


def test_a_recorder_s_plain_pickle(tmp_path: Path) -> None:
    entry = {
        "profiling_name": "nccl:all_reduce",
        "collective_seq_id": 3,
        "process_group": ("0", "default_pg"),
        "state": "started",
        "input_sizes": [[4]],
        "is_p2p": False,
    }
    (tmp_path / "nccl_trace_rank_5").write_bytes(pickle.dumps({"version": "2.5", "entries": [entry], "pg_status": {}}))
    [recording] = read(str(tmp_path)).recordings
    assert recording.rank == 5
    assert [(op.operation, op.sequence, op.sizes) for op in recording.operations] == [("all_reduce", 3, "[[4]] → ")]


def test_log_lines_that_bear_on_a_hang(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text(pyspy_text(pyspy("f a.py:1")))
    (tmp_path / "job.log").write_text(
        "[rank3]:[E] [Rank 3] Watchdog: WorkNCCL(SeqNum=64214, OpType=ALLGATHER, NumelIn=1, NumelOut=32, Timeout=1)\n"
        "Waiting in store based barrier for rank: 2, key: k (world_size=8, worker_count=7, timeout=1)\n"
        "Out of memory: Killed process 4711 (python)\n"
        "Error: No available node types can fulfill resource request {'GPU': 8.0}\n"
        "loss 0.1 in the living room\n"
    )
    hints = read(str(tmp_path)).hints
    assert [hint.kind for hint in hints] == ["watchdog", "store-barrier", "oom", "ray-resources"]
    assert hints[0].numbers == {"rank": 3, "sequence": 64214, "inputs": 1, "outputs": 32}
    assert hints[1].numbers == {"rank": 2, "world": 8, "joined": 7}


def test_rays_tables_tell_what_waits_and_are_no_foreign_files(tmp_path: Path) -> None:
    tables = {
        "ray-actors.json": [],
        "ray-tasks.json": [{"task_id": "1", "name": "score", "state": "PENDING_NODE_ASSIGNMENT", "actor_id": None}],
        "ray-nodes.json": [
            {"node_id": "a", "node_ip": "10.0.0.1", "state": "ALIVE"},
            {"node_id": "b", "node_ip": "10.0.0.2", "state": "DEAD", "state_message": "health check failed"},
        ],
        "ray-placement-groups.json": [
            {"placement_group_id": "0123456789", "state": "PENDING"},
            {"placement_group_id": "1", "name": "fine", "state": "CREATED"},
        ],
    }
    for name, rows in tables.items():
        (tmp_path / name).write_text(json.dumps(rows))
    (tmp_path / "rank0.json").write_text(json.dumps([
        {"pid": 1, "thread_name": "MainThread", "active": False, "owns_gil": False,
         "frames": [{"name": "get", "filename": "ray/_private/worker.py", "line": 1}]}
    ]))  # fmt: skip
    dump = read(str(tmp_path))
    assert dump.pending_actors == ["placement group 01234567"]
    assert sorted(dump.notes) == [
        "1 Ray tasks wait for a place, e.g. score",
        "Ray has given node 10.0.0.2 up: health check failed",
    ]
