"""The program that a stage starts for an agent: the child of ``harness.agent``, with our observer of calls in it."""

from __future__ import annotations

import dataclasses
import os
from urllib.parse import urlsplit

from harness.agent import child, frames
from harness.checks.stand_in import stand_in
from harness.openai_api.calls import Call
from harness.openai_api.observer import Observer
from harness.openai_api.recording.inside import Inside


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
