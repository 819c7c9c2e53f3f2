"""Keeps a dump: ``runs/<time>-hang/`` with stacks, manifest, verdict and fingerprint, without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.hang.collect import Collected
from harness.hang.folder import MANIFEST
from harness.runs import Redactor, RunFolder
from harness.runs.environment import of_this_process


def keep(root: Path, collected: Collected, verdict: Mapping[str, Any], redactor: Redactor) -> Path:
    """Write everything; where that fails, nothing half-written stays.

    Raises:
        RunsNotWritable: the folder can't be made.
        NoSpace: the disk is full.
    """
    folder = RunFolder.create(root, "hang", redactor)
    try:
        for name, content in collected.dumps.items():
            if content[:1] == b"\x80":
                folder.write_bytes(name, content)  # a recorder's pickle: sizes, names and lines, and no free text
            else:
                folder.write_text(name, content.decode("utf-8", "replace"))
        folder.write_json("verdict.json", verdict)
        manifest = collected.manifest
        folder.write_json(MANIFEST, manifest.model_dump(exclude_defaults=True) | {"format": manifest.format})
        result = {"verb": "hang-dump", "exit_code": int(verdict["state"] == "hung"), "cause": verdict["cause"]}
        folder.finish(result, fingerprint=of_this_process)
    except BaseException:
        folder.discard()
        raise
    return folder.path
