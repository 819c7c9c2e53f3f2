"""The program that a stage starts for an agent: the child of ``harness.agent``, with our observer of calls in it."""

from __future__ import annotations

import dataclasses

from harness.agent import child
from harness.openai_api.calls import Call
from harness.openai_api.observer import Observer


def main() -> None:
    """Run an agent as the parent says."""
    child.main(_observer)


def _observer(channel: child.Channel) -> Observer:
    def say(call: Call, origin: str) -> None:
        # The bodies stay here: the proxy has them, and a pipe is no place for megabytes of images.
        channel.say("call", origin=origin, call=dataclasses.replace(call, request=None, response=None).as_dict())

    return Observer(say)
