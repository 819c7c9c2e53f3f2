"""The folder of one dump: what ``hang-dump`` writes and ``diagnose`` reads.

::

    manifest.json            who was found, who was expected, how each sample went
    rank0.json               py-spy's JSON of rank 0, first sample
    rank0.2.json             the second sample, where rank 0 ran in between; else the manifest names one file for both
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.processes.sampling.model import ProcessEntry as ProcessEntry
from harness.processes.sampling.model import SampleEntry as SampleEntry
from harness.processes.sampling.model import plain

MANIFEST = "manifest.json"
FORMAT = "drydock-hang/1"


@dataclass
class Manifest:
    """The whole of ``manifest.json``.

    Attributes:
        world_size: ranks that the job should have; with the entries' own it tells who is missing.
        gap_seconds: time between the two samples.
        environment: the fingerprint (versions, images, revisions); free in form.
        unreachable: hosts or containers that couldn't be asked, each with its reason.
        notes: what else was noticed while the dump was taken.
    """

    format: str = FORMAT
    taken: str = ""
    world_size: int | None = None
    gap_seconds: float | None = None
    processes: list[ProcessEntry] = field(default_factory=list)
    unreachable: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """As it is written."""
        return plain(self) | {"format": self.format}


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
    text = json.dumps(manifest.as_dict(), indent=1)
    half = folder / f".{MANIFEST}.part"
    half.write_text(text + "\n", encoding="utf-8")
    half.replace(folder / MANIFEST)
