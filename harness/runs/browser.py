"""A page in the browser of whoever asks, where there is one to open it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path


def opener(environment: Mapping[str, str], which: Callable[[str], str | None] = shutil.which) -> str | None:
    """The program that opens a file in a browser here; None where nobody would see it.

    ``BROWSER`` wins; its first program that is there is taken. Without a display nothing is started: what
    ``xdg-open`` finds then is a browser for terminals, and it would take this one.
    """
    for program in environment.get("BROWSER", "").split(os.pathsep):
        if program and (found := which(program)):
            return found
    if environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"):
        return which("xdg-open")
    return None


def show(page: Path, environment: Mapping[str, str] | None = None) -> bool:
    """Open a page, and don't wait for it; whether somebody was asked to."""
    program = opener(os.environ if environment is None else environment)
    if program is None:
        return False
    try:
        subprocess.Popen(
            [program, str(page)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return False
    return True
