"""The program that a stage starts for an agent: the child of ``harness.agent``, with our observer of calls in it."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from urllib.parse import urlsplit

from harness.agent import child, frames
from harness.openai_api.calls import Call
from harness.openai_api.observer import Observer
from harness.openai_api.recording.clean import clean_request
from harness.openai_api.recording.inside import REPLAY, Inside
from harness.openai_api.recording.matching import Matcher
from harness.openai_api.recording.store import Recording, read_run
from harness.runs.redact import Redactor


def main() -> None:
    """Run an agent as the parent says."""
    child.main(watcher)


def watcher(channel: child.Channel) -> child.Watcher:
    """What sees the agent's calls, and answers them where a recording is replayed."""

    def say(call: Call, origin: str) -> None:
        # The bodies stay here: the proxy has them, and a pipe is no place for megabytes of images.
        channel.say("call", origin=origin, call=dataclasses.replace(call, request=None, response=None).as_dict())

    parts = urlsplit(os.environ.get("OPENAI_BASE_URL", ""))
    origin = f"{parts.scheme}://{parts.netloc}"
    observer = Observer(say, ours=origin, caller=frames.own_caller)
    inside = stand_in(channel, origin)
    return observer if inside is None else _Replaying(observer, inside)


def stand_in(channel: child.Channel, origin: str) -> Inside | None:
    """What answers in the server's place, where the parent named a recording."""
    folder = os.environ.pop(REPLAY, "")
    return Inside(origin, _loader(Path(folder)), channel.say) if folder else None


class _Replaying:
    """The observer, and below it what stands in for the network."""

    def __init__(self, observer: Observer, inside: Inside) -> None:
        self._observer, self._inside = observer, inside

    def install(self) -> None:
        self._inside.install()
        self._observer.install()

    def begin(self, run: int) -> None:
        self._observer.begin(run)

    def remove(self) -> None:
        self._observer.remove()
        self._inside.remove()


class _loader:
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
