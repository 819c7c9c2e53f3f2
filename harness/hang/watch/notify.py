"""Tells somebody of a hang: a command of theirs, a webhook."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

_SECONDS = 30.0


def run_command(command: str, told: Mapping[str, Any]) -> str:
    """Run a shell command with the verdict in its environment (``HANG_…``) and on its standard input; "" or why not."""
    environment = {**os.environ, **{f"HANG_{key.upper()}": _plain(value) for key, value in told.items()}}
    try:
        done = subprocess.run(
            command, shell=True, env=environment, input=json.dumps(told).encode(), timeout=_SECONDS,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"NOTIFY: {error}"
    said = done.stderr.decode("utf-8", "replace").strip()[-200:]
    return f"NOTIFY ended with exit code {done.returncode}: {said}" if done.returncode else ""


def post(url: str, told: Mapping[str, Any]) -> str:
    """Post the verdict as JSON; its ``text`` is what chat systems show. Returns "" or why it couldn't."""
    try:
        request = urllib.request.Request(
            url, data=json.dumps(told).encode(), headers={"Content-Type": "application/json"}, method="POST"
        )
        with urllib.request.urlopen(request, timeout=_SECONDS):
            return ""
    except (OSError, ValueError, urllib.error.URLError) as error:
        # The address may hold a token; only its host is shown.
        return f"WEBHOOK: {error}"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else ",".join(value) if isinstance(value, list) else str(value)
