"""Where a process waits, seen from outside with py-spy; for when it can't say so itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any

from harness.agent.frames import frame_at


def dump_from_outside(pid: int, *, seconds: float = 10.0) -> dict[str, Any] | None:
    """The threads of a process in the shape of ``frames.snapshot``; None where py-spy is missing or not allowed."""
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")
    program = beside if os.path.exists(beside) else shutil.which("py-spy")
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, "dump", "--json", "--pid", str(pid)], capture_output=True, timeout=seconds, check=False
        )
        threads = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return None if threads is None else {"tasks": [], "threads": [_thread(thread, pid) for thread in threads]}


def _thread(thread: dict[str, Any], pid: int) -> dict[str, Any]:
    # py-spy gives the innermost frame first.
    frames = [
        frame_at(frame["filename"], frame["line"], frame["name"]).as_dict() for frame in reversed(thread["frames"])
    ]
    ours = os.sep + os.path.join("harness", "agent") + os.sep
    name = thread.get("thread_name") or str(thread.get("thread_id"))
    return {
        "name": name,
        "main": name == "MainThread" or thread.get("os_thread_id") == pid,
        "frames": [frame for frame in frames if ours not in frame["file"]],
    }
