"""Tells of each worker that comes to a stop, until Ctrl-C."""

from __future__ import annotations

import json
import sys
import time

from harness import console
from harness.breakpoints import show
from harness.breakpoints.now import paused_now
from harness.errors import RayNotReachable
from harness.settings import Settings

EVERY_SECONDS = 0.5


def forever(settings: Settings) -> None:
    """Print a line for each new one; as JSON lines with ``JSON=1``."""
    if not settings.json_output:
        console.note("waiting for breakpoints; Ctrl-C ends this")
    known: set[tuple[int, str, int, float | None]] = set()
    silent = False
    while True:
        try:
            found = paused_now(settings)
            silent = False
        except RayNotReachable as error:
            if not silent:
                console.warn(f"{error.what} Trying again.")
            silent, found = True, []
        present = set()
        for line in found:
            key = (line.worker.pid, line.thread, line.number, line.since)
            present.add(key)
            if key in known or line.state != "waits":
                continue
            if settings.json_output:
                sys.stdout.write(json.dumps(line.as_dict(), ensure_ascii=False) + "\n")
                sys.stdout.flush()
            else:
                show.one(line, workspace=str(settings.workspace))
        known = present
        time.sleep(EVERY_SECONDS)
