"""Parsers of what somebody else's machine has dumped."""

# ruff: noqa: E501  # examples as they are

from __future__ import annotations

import io
import json
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.hang import local_values
from harness.hang.decide import diagnose
from harness.hang.readers import cluster, pyspy_json, read, recorder
from harness.hang.readers.interning import Interner
from harness.printable import printable_all
from harness.processes.sampling.model import NodeAnswer, pack, unpack
from harness.processes.sampling.turns import threads_in
from harness.runs.redact import Redactor
from tests.support.harness import CLONE
from tests.unit.fuzz.parser import Parser, in_file

_CASES = CLONE / "tests/hang_cases"
_LARGEST = 16_000

GDB = b"""Thread 2 (Thread 0x7f31 (LWP 4712) "python"):
#0  0x00007f8e in poll () from /lib/x86_64-linux-gnu/libc.so.6
#1  0x00007f8f in ?? () from /usr/lib/libgloo.so
Traceback for thread 4711 (python) [Has the GIL] (most recent call last):
    (Python) File "/w/train.py", line 31, in main
    (Python) File "torch/distributed/distributed_c10d.py", line 2501, in all_reduce
Thread 0x00007f (most recent call first):
  File "torch/distributed/distributed_c10d.py", line 2501 in all_reduce
  File "/w/train.py", line 31 in main
Timeout (0:10:00)!
[rank3]:[E] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=4)
(RolloutWorker pid=4711, ip=10.0.0.3) Traceback (most recent call last):
==== PID 4713 ====
Process 4713: python -c 'from multiprocessing.spawn import spawn_main'
Thread 4713 (idle): "MainThread"
    wait (threading.py:320)
        Locals:
            self: <Condition object at 0x7f>
"""


def _whole(path: Path) -> Any:
    """Read, judge and show, as `diagnose` does."""
    return json.dumps(printable_all(diagnose(read(str(path))).as_dict())).encode()


def _examples(*patterns: str, most: int = 6) -> tuple[bytes, ...]:
    """Recorded hangs, the small ones of many folders."""
    found: dict[str, bytes] = {}
    for pattern in patterns:
        for path in sorted(_CASES.rglob(pattern)):
            if 50 < path.stat().st_size < _LARGEST:
                found.setdefault(path.parent.name, path.read_bytes())
    step = max(1, len(found) // most)
    return tuple(list(found.values())[::step][:most])


def _folder(data: bytes, folder: Path) -> Any:
    """A manifest beside the dumps that it names."""
    place = folder / "dump"
    place.mkdir(exist_ok=True)
    (place / "manifest.json").write_bytes(data)
    for name in ("rank0.json", "rank1.json", "p1.1.json"):
        (place / name).write_bytes(_PYSPY[0])
    return _whole(place)


def _beside(name: str) -> Callable[[bytes, Path], Any]:
    """A file beside a dump of one process."""

    def write_and_read(data: bytes, folder: Path) -> Any:
        place = folder / "dump"
        place.mkdir(exist_ok=True)
        (place / "rank0.json").write_bytes(_PYSPY[0])
        (place / name).write_bytes(data)
        return _whole(place)

    return write_and_read


def archive(members: dict[str, bytes], mode: str = "w") -> bytes:
    """A tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:  # type: ignore[call-overload]
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


_PYSPY = _examples("rank0.json", "driver.json", "server.json")
_TEXT = (*_examples("*.txt", most=8), GDB)
_MANIFESTS = _examples("manifest.json")
_RECORDER = _examples("trace_*", most=4)
ENTRIES: dict[str, Any] = {
    "version": "2.4",
    "pg_config": {"0": {"name": "default", "desc": "default_pg", "ranks": "[0, 1]"}},
    "pg_status": {"0": {"last_enqueued_collective": 3, "last_started_collective": 3, "last_completed_collective": 2}},
    "entries": [
        {
            "process_group": ["0", "default_pg"], "collective_seq_id": 3, "p2p_seq_id": 0, "is_p2p": False, "op_id": 3,
            "profiling_name": "nccl:all_reduce", "input_sizes": [[4, 8]], "output_sizes": [[4, 8]], "retired": False,
            "input_dtypes": ["Float"], "output_dtypes": ["Float"], "state": "started", "time_created_ns": 17,
        }
    ],
}  # fmt: skip
PICKLES = tuple(pickle.dumps(ENTRIES, protocol=protocol) for protocol in (2, 3, 4, 5))
_TASKS = json.dumps(
    {
        "pid": 4711,
        "tasks": [
            {
                "task": "Task-1",
                "waiting_on": "<Future pending>",
                "stack": [{"name": "main", "file": "/w/train.py", "line": 3}, {"name": "get", "file": "asyncio/queues.py"}],
            }
        ],
    }
).encode()  # fmt: skip
_ACTORS = (
    *_examples("ray-list-actors.txt"),
    json.dumps({"data": [{"actor_id": "ab12cd34", "class_name": "Trainer", "state": "PENDING_CREATION"}]}).encode(),
)
_ANSWER = pack(NodeAnswer())


def _recorder(data: bytes, folder: Path) -> Any:
    return recorder.read(data, 0)


PARSERS = (
    Parser("py-spy, JSON", in_file("rank0.json", _whole), _PYSPY, (UsageError,)),
    Parser("py-spy's JSON alone", lambda data, _: pyspy_json.read(data, Interner()), _PYSPY, (ValueError, RecursionError)),
    Parser("py-spy, faulthandler, pystack, gdb, Ray: text", in_file("stacks.txt", _whole), _TEXT, (UsageError,)),
    Parser("log files", _beside("train.log"), (*_examples("*.log"), GDB), (UsageError,)),
    Parser("manifest.json of a dump", _folder, _MANIFESTS, (UsageError,)),
    Parser("await chains", _beside("rank0.tasks.json"), (_TASKS,), (UsageError,)),
    Parser("Ray's list of actors", _beside("ray-actors.json"), _ACTORS, (UsageError,)),
    Parser("Ray's tables", lambda data, _: [cluster.read_table(name, data) for name in sorted(cluster.TABLES)],
           _ACTORS[-1:], (ValueError, RecursionError)),
    Parser("Flight Recorder, JSON", _recorder, (*_RECORDER, json.dumps(ENTRIES).encode()), (ValueError, RecursionError)),
    Parser("Flight Recorder, pickle", _recorder, PICKLES, (ValueError, RecursionError)),
    Parser("Flight Recorder, a file", in_file("trace_0", _whole), (*PICKLES, *_RECORDER), (UsageError,)),
    Parser("tar archive", in_file("dumps.tar", _whole),
           (archive({"d/rank0.json": _PYSPY[0], "d/rank1.txt": _TEXT[0]}),), (UsageError,)),
    Parser("tar.gz archive", in_file("dumps.tar.gz", _whole), (archive({"rank0.json": _PYSPY[0]}, "w:gz"),), (UsageError,)),
    Parser("answer of a sampler", lambda data, _: unpack(data), (_ANSWER,), (ValueError,)),
    Parser("local variables", lambda data, _: local_values.cleaned(data, Redactor()), _PYSPY),
    Parser("threads of a dump", lambda data, _: threads_in(data), _PYSPY),
)  # fmt: skip
