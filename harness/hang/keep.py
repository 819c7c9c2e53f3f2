"""Keeps a dump: ``runs/<time>-hang/`` with stacks, manifest, verdict and fingerprint, without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.hang.collect import Collected
from harness.hang.folder import MANIFEST
from harness.hang.page import NAME
from harness.hang.page.write import in_words
from harness.runs import Redactor, RunFolder
from harness.runs.environment import of_this_process


def keep(root: Path, collected: Collected, verdict: Mapping[str, Any], redactor: Redactor, page: str = "") -> Path:
    """Write everything; where that fails, nothing half-written stays.

    Args:
        page: the verdict as HTML.

    Raises:
        RunsNotWritable: the folder can't be made.
        NoSpace: the disk is full.
    """
    folder = RunFolder.create(root, "hang", redactor)
    try:
        # A recorder's pickle stays as it is: sizes, names and lines, and no free text.
        folder.write_all(
            {
                name: content if content[:1] == b"\x80" else content.decode("utf-8", "replace")
                for name, content in collected.dumps.items()
            }
        )
        folder.write_json("verdict.json", verdict)
        if page:
            folder.write_text(NAME, page)
        folder.write_json(MANIFEST, collected.manifest.as_dict())
        result: dict[str, Any] = {
            "verb": "hang-dump",
            "exit_code": int(verdict["state"] == "hung"),
            "cause": verdict["cause"],
        }
        result |= {"state": verdict["state"], "verdict": in_words(verdict)}
        folder.finish(result, fingerprint=of_this_process)
    except BaseException:
        folder.discard()
        raise
    return folder.path
