"""What answers an agent's calls within its process where a recording is replayed; runs in the child."""

from __future__ import annotations

import os
from pathlib import Path

from harness.agent.child import Channel
from harness.openai_api.recording.clean import clean_request
from harness.openai_api.recording.inside import REPLAY, Inside
from harness.openai_api.recording.matching import Matcher
from harness.openai_api.recording.store import Recording, read_run
from harness.runs.redact import Redactor


def stand_in(channel: Channel, origin: str) -> Inside | None:
    """What answers in the server's place, where the parent named a recording."""
    folder = os.environ.pop(REPLAY, "")
    return Inside(origin, _Loader(Path(folder)), channel.say) if folder else None


class _Loader:
    """Gives a run's matcher; None where its calls didn't all come through httpx in the agent's process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs = Recording.open(folder).runs
        self._redactor = Redactor()

    def __call__(self, run: int) -> Matcher | None:
        recorded = max(run, 0)  # a run below 0 tries out what run 0 does
        exchanges = read_run(self._folder, recorded).exchanges if recorded in self._runs else ()
        if not all(exchange.in_process for exchange in exchanges):
            return None
        return Matcher(run, exchanges, lambda raw: clean_request(raw, self._redactor))
