"""Parsers of what we have written ourselves, which may be half there, of another version, or somebody's work."""

# ruff: noqa: E501  # examples as they are

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from harness.breakpoints import numbers
from harness.checks import against, load_page
from harness.checks.stage3_data import CallRow, RunRow
from harness.compare.checkpoint import Store
from harness.errors import BadSetting, NoSuchRun, RecordingUnusable, SavedUnusable
from harness.models.cache import read_json
from harness.openai_api.recording.clean import cleaned
from harness.openai_api.recording.exchange import Exchange
from harness.openai_api.recording.store import META, Recording
from harness.processes.running import read_run
from harness.runs.folder import listed
from harness.runs.redact import Redactor
from harness.settings import load_settings
from harness.stack import portrait, saved, status
from harness.stack.already import Record
from harness.stack.images.ledger import read_steps
from tests.unit.fuzz.formats import at_home
from tests.unit.fuzz.parser import Parser, in_file

EXCHANGE = Exchange(
    run=0, number=1, method="POST", path="/v1/chat/completions", request=b'{"model": "m"}', status=200,
    headers=(("content-type", "text/event-stream"),), blocks=(b'data: {"a": 1}\n\n', b"\xff"), offsets=(0.1, 0.2),
)  # fmt: skip
TAPE = "\n".join(
    json.dumps(line)
    for line in (
        {"sample": {"messages": []}, "about": {"line": 1}},
        {"call": EXCHANGE.as_dict()},
        {"ended": {"reward": 1.0}},
    )
).encode()
META_TEXT = b'{"drydock_recording": 1, "base_path": "/v1", "model": "m"}'
REPORT = json.dumps(
    {
        "verb": "check",
        "seconds": 1.0,
        "exit_code": 0,
        "stages": [
            {
                "stage": 1,
                "title": "server",
                "seconds": 1.0,
                "figures": {"speed": 1.5, "inner": {"n": 2}},
                "findings": [{"id": "health", "title": "health", "status": "pass", "detail": "fine"}],
            }
        ],
    }
).encode()
RUN = json.dumps(
    {
        "command": "python t.py", "cwd": "/w", "shell": "/bin/sh", "background": False, "environment": ["A"],
        "supervisor": {"pid": 7, "start_ticks": 9, "boot": "b", "pid_namespace": 3}, "started": "2026-01-01T00:00:00Z",
        "stdout": {"file": "o", "bytes": 0}, "stderr": {"file": "e", "bytes": 0}, "state": "ended", "exit_code": 0,
        "processes": [{"pid": 8, "parent": 7, "name": "python", "command": None, "start_ticks": 1, "started": "2026-01-01T00:00:00Z"}],
    }
).encode()  # fmt: skip
ALREADY = json.dumps(
    {
        "names": ["MODEL"], "asked": "x", "watched": {"/etc/hostname": [1, 2]}, "owners": {"/tmp": [0, 0]},
        "expected": {"project": "p", "services": {"dev": 1}, "ray_nodes": 2, "port": 1, "dashboard_port": 2, "keys": "/k"},
        "notes": ["n"], "rows": [["a", "b"]],
    }
).encode()  # fmt: skip
UP = b'{"settings": {"model": "m", "port": "8080", "workers": 2}, "names": ["m"], "gpus": {"inference": []}}'
STEPS = b'{"shift": 0.5, "steps": [{"name": "[1/2] RUN x", "started": "2026-01-01T00:00:00.123456789Z", "completed": null}]}'
PORTRAIT = (
    b'{"drydock": {"version": "0.1.0"}, "machine": {"cpus": 2}, "images": {"dev": {"tag": "x", "layers": ["a", "b"]}}}'
)
SAMPLE_LINES = b'{"id": 0, "line": 1, "prompt": [1], "output": [2], "decode": [-0.5]}\n{"id": 1, "line": 2}\n'
SCORE_LINES = b'{"id": 0, "logprobs": [-0.5], "top": [2]}\n{"id": 1, "logprobs": []}\n'
MANIFEST = saved.Manifest(
    format=saved.FORMAT, made="now", version="0.1.0", settings={"MODEL": "m"}, images={"a:1": "sha256:1"}, commit=None,
    architecture="amd64", python="3.11",
).model_dump_json().encode()  # fmt: skip
SUMS = f"{hashlib.sha256(MANIFEST).hexdigest()}  manifest.json\n".encode()


def _recording(data: bytes, folder: Path) -> Any:
    (folder / META).write_bytes(META_TEXT)
    (folder / "run-00000.jsonl").write_bytes(data)
    run = Recording.open(folder).pick(None)
    return [cleaned(one, Redactor(["secret"])) for one in run.exchanges]


def _meta(data: bytes, folder: Path) -> Any:
    (folder / "run-00000.jsonl").write_bytes(TAPE)
    (folder / META).write_bytes(data)
    recording = Recording.open(folder)
    return recording.base_path, recording.model, recording.pick(None)


def _report(data: bytes, folder: Path) -> Any:
    (folder / "result.json").write_bytes(data)
    (folder / "environment.json").write_bytes(b'{"packages": {"ray": "2"}}')
    kept = against.read(folder)
    return against.compare(kept, kept).as_dict()


def _environment(data: bytes, folder: Path) -> Any:
    (folder / "result.json").write_bytes(REPORT)
    (folder / "environment.json").write_bytes(data)
    kept = against.read(folder)
    return against.compare(kept, kept).as_dict()


def _run(data: bytes, folder: Path) -> Any:
    (folder / "result.json").write_bytes(data)
    return read_run(folder)


def _list(data: bytes, folder: Path) -> Any:
    one = folder / "20260101-000000-check"
    one.mkdir(exist_ok=True)
    (one / "result.json").write_bytes(data)
    return listed(folder)


def _up(data: bytes, folder: Path) -> Any:
    with at_home(folder):
        settings = load_settings(environ={"PROJECT": "p"})
        settings.state_dir.mkdir(parents=True, exist_ok=True)
        (settings.state_dir / "up.json").write_bytes(data)
        return status.recall(settings)


def _steps(data: bytes, folder: Path) -> Any:
    (folder / "build.json").write_bytes(data)
    return list(read_steps(folder))


def _store(data: bytes, folder: Path) -> Any:
    (folder / "samples.jsonl").write_bytes(data if b"line" in data else SAMPLE_LINES)
    (folder / "reference-float32.jsonl").write_bytes(SCORE_LINES if b"line" in data else data)
    store = Store(folder)
    try:
        found = list(store.all_samples())
        return found, [store.score("float32", sample.id) for sample in found]
    finally:
        store.close()


def _numbers(data: bytes, folder: Path) -> Any:
    (folder / "sessions.json").write_bytes(data)
    return numbers.of([], folder)


def _saved(data: bytes, folder: Path) -> Any:
    (folder / saved.SUMS).write_bytes(SUMS)
    (folder / saved.MANIFEST).write_bytes(data)
    return saved.read(folder)


def _sums(data: bytes, folder: Path) -> Any:
    (folder / saved.MANIFEST).write_bytes(MANIFEST)
    (folder / saved.SUMS).write_bytes(data)
    return saved.check(folder, lambda text: None)


def _fingerprint(path: Path) -> Any:
    return portrait.differences(portrait.read(path), {"drydock": {"version": "0.2.0"}})


PARSERS = (
    Parser("recording, the calls of a run", _recording, (TAPE,), (RecordingUnusable,)),
    Parser("recording, what it is", _meta, (META_TEXT,), (RecordingUnusable,)),
    Parser("an earlier check", _report, (REPORT,), (NoSuchRun,)),
    Parser("environment of an earlier check", _environment, (PORTRAIT,), (NoSuchRun,)),
    Parser("rows of stage 3", in_file("runs.jsonl", lambda path: [load_page.rows(path, kind) for kind in (RunRow, CallRow)]),
           (b'{"run": 0, "started": 0.1, "ended": 0.2, "line": 3}\n{"run": 0, "number": 1, "started": 0.1, "ended": 0.3}\n',)),
    Parser("a run of a command", _run, (RUN,), (NoSuchRun,)),
    Parser("the list of runs", _list, (REPORT, RUN)),
    Parser("samples of an earlier comparison", _store, (SAMPLE_LINES, SCORE_LINES)),
    Parser("what the last `up` found", in_file("already.json", lambda path: (found := Record.read(path)) and found.still_true({})),
           (ALREADY,)),
    Parser("what the last `up` was asked", _up, (UP,), (BadSetting,)),
    Parser("steps of builds", _steps, (STEPS,)),
    Parser("numbers of paused workers", _numbers, (b'{"a:1": 1, "b:2": 2}',)),
    Parser("a fingerprint", in_file("f.json", _fingerprint), (PORTRAIT,), (BadSetting,)),
    Parser("a saved stack, what it is", _saved, (MANIFEST,), (SavedUnusable,)),
    Parser("a saved stack, its checksums", _sums, (SUMS,), (SavedUnusable,)),
    Parser("a record beside weights", in_file("record.json", read_json), (b'{"repo": "a/b", "files": {"x": 1}}',)),
)  # fmt: skip
