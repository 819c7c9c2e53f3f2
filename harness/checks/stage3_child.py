"""The program that stage 3 starts for an agent: many runs at once, with what sees their calls."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from harness.agent import child, frames, many
from harness.checks.stand_in import stand_in
from harness.openai_api.load_observer import LoadObserver

# Where the requests are kept for the bare client; set by the parent, and taken out before the agent's code runs.
BODIES = "DRYDOCK_STAGE3_BODIES"
OURS = "DRYDOCK_STAGE3_ORIGINS"


def main() -> None:
    """Run an agent many times as the parent says."""
    child.main(_observer, many.run_many)


def _observer(channel: child.Channel) -> LoadObserver:
    def say(row: dict[str, Any]) -> None:
        channel.say("call", **row)

    bodies = os.environ.pop(BODIES, "")
    origins = [origin for origin in os.environ.pop(OURS, "").split() if origin]
    parts = urlsplit(os.environ.get("OPENAI_BASE_URL", ""))
    observer = LoadObserver(
        say,
        ours=f"{parts.scheme}://{parts.netloc}",
        bodies=Path(bodies) if bodies else None,
        own_place=frames.own_place,
    )
    observer.expect(origins)
    if (inside := stand_in(channel, f"{parts.scheme}://{parts.netloc}")) is not None:
        # Below the observer, and there until the process ends.
        inside.install()
    return observer
