"""The folder of one dump: what ``hang-dump`` writes and ``diagnose`` reads.

::

    manifest.json            who was found, who was expected, how each sample went
    rank0.json               py-spy's JSON of rank 0, first sample
    rank0.2.json             the second sample
    rank0.child4711.json     a child of rank 0 (a data worker), first sample
    driver.json  server.json  worker.4711.json
    rank0.tasks.json         await chains of its asyncio tasks, where they were asked for
    trace_0.json             its Flight Recorder, where there is one (a pickle keeps the name without ending)
    ray-actors.json          Ray's list of actors, where there is a cluster
    logs/…                   the end of log files

Only the manifest's keys below are promised; unknown keys are ignored, so that later writers stay readable. Every file
may be missing: a folder of ``rank<k>.json`` without a manifest is a dump as well.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

MANIFEST = "manifest.json"
FORMAT = "drydock-hang/1"


class SampleEntry(BaseModel):
    """How one sample of one process went.

    Attributes:
        file: the dump, relative to the folder; None where there is none, and then ``error`` says why.
        way: how it was taken: ``py-spy``, ``py-spy --nonblocking``, ``faulthandler``, ``proc``.
        at: seconds since the first sample of the whole dump.
    """

    model_config = ConfigDict(extra="ignore")

    file: str | None = None
    way: str = "py-spy"
    at: float = 0.0
    state: str = ""
    cpu_seconds: float | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None
    switches: int | None = None
    gpu_percent: float | None = None
    error: str = ""


class ProcessEntry(BaseModel):
    """One process, found or expected.

    Attributes:
        id: ``rank<k>``; without ranks ``driver``, ``server`` or ``worker:<pid>``. A child has its rank's id and the
            role ``child``.
        role: rank, child, driver, server, worker, launcher.
        listens: has a listening socket. An event loop that sleeps is a service's then, rather than a lost await.
        missing: expected by the world size, but nowhere found.
        exit_code: of a process that has ended, where somebody kept it.
        wchan, syscall: where the kernel has it, for a process in state D or one that no dumper could read.
        logs: files in this folder that are its own.
    """

    model_config = ConfigDict(extra="ignore")

    id: str = ""
    role: str = ""
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    pid: int = 0
    ppid: int = 0
    host: str = ""
    container: str = ""
    command: str = ""
    state: str = ""
    wchan: str = ""
    syscall: str = ""
    listens: bool = False
    missing: bool = False
    exit_code: int | None = None
    error: str = ""
    samples: list[SampleEntry] = Field(default_factory=list)
    logs: list[str] = Field(default_factory=list)


class Manifest(BaseModel):
    """The whole of ``manifest.json``.

    Attributes:
        world_size: ranks that the job should have; with the entries' own it tells who is missing.
        gap_seconds: time between the two samples.
        environment: the fingerprint (versions, images, revisions); free in form.
        unreachable: hosts or containers that couldn't be asked, each with its reason.
    """

    model_config = ConfigDict(extra="ignore")

    format: str = FORMAT
    taken: str = ""
    world_size: int | None = None
    gap_seconds: float | None = None
    processes: list[ProcessEntry] = Field(default_factory=list)
    unreachable: dict[str, str] = Field(default_factory=dict)
    environment: dict[str, Any] = Field(default_factory=dict)


def dump_name(entry: ProcessEntry, sample: int = 1, ending: str = "json") -> str:
    """The file name for a process's dump; no character of an id can lead out of the folder."""
    stem = entry.id or f"worker.{entry.pid}"
    if entry.role == "child":
        stem += f".child{entry.pid}"
    stem = re.sub(r"[^A-Za-z0-9_.-]+", ".", stem).strip(".") or f"worker.{entry.pid}"
    return f"{stem}.{ending}" if sample == 1 else f"{stem}.{sample}.{ending}"


def write_folder(folder: Path, manifest: Manifest, dumps: dict[str, bytes]) -> None:
    """Write a dump; the manifest comes last, so that a folder that has one is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in dumps.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    text = json.dumps(manifest.model_dump(exclude_defaults=True) | {"format": manifest.format}, indent=1)
    half = folder / f".{MANIFEST}.part"
    half.write_text(text + "\n", encoding="utf-8")
    half.replace(folder / MANIFEST)
