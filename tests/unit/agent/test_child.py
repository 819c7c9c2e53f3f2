from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import pytest

from harness.agent.child import Channel, ReturnLine, _lines
from harness.agent.runner import Server, agent_environment


class Agent:
    async def run(self, data: bool) -> float:
        await asyncio.sleep(0)
        if data:
            return 1.0

        return 0.0


def returned_at(data: bool) -> tuple[int | None, str]:
    line = ReturnLine(Agent.run.__code__)

    async def main() -> None:
        with line:
            await Agent().run(data)

    asyncio.run(main())
    place: Any = line.place()
    return line.line, "" if place is None else place["source"]


@pytest.mark.skipif(sys.gettrace() is not None, reason="a debugger or a coverage tool is at work")
def test_the_line_of_the_return_that_was_taken_is_noted() -> None:
    first = Agent.run.__code__.co_firstlineno
    assert returned_at(True) == (first + 3, "return 1.0")
    assert returned_at(False) == (first + 5, "return 0.0")
    assert sys.gettrace() is None


def test_a_debugger_is_left_alone() -> None:
    def tracer(*_: Any) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        with ReturnLine(Agent.run.__code__) as line:
            assert sys.gettrace() is tracer
        assert sys.gettrace() is tracer
        assert line.place() is None
    finally:
        sys.settrace(before)


def test_a_channel_says_one_line_an_event_and_outlives_its_reader() -> None:
    read, write = os.pipe()
    channel = Channel(write)
    channel.say("started", what={"odd": object})
    line = os.read(read, 10_000)
    assert line.endswith(b"\n")
    assert json.loads(line)["event"] == "started"
    os.close(read)
    channel.say("ended")
    os.close(write)


def test_commands_come_line_by_line() -> None:
    read, write = os.pipe()
    os.write(write, b'{"job": 1}\ndump\ncan')
    os.write(write, b"cel\n")
    os.close(write)
    assert list(_lines(read)) == [b'{"job": 1}', b"dump", b"cancel"]
    os.close(read)


def test_the_agents_environment_leads_to_the_proxy_and_past_no_other() -> None:
    server = Server("http://127.0.0.1:9/v1", "http://127.0.0.1:9", "run-key", "m")
    base = {"OPENAI_API_KEY": "sk-real", "NO_PROXY": "corp", "JSON": "1", "PATH": "/bin"}
    environment = agent_environment(base, server)
    assert environment["OPENAI_API_KEY"] == environment["ANTHROPIC_API_KEY"] == "run-key"
    assert environment["OPENAI_BASE_URL"] == "http://127.0.0.1:9/v1"
    assert environment["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:9"
    assert environment["OPENAI_MODEL"] == "m"
    assert environment["NO_PROXY"] == "corp,127.0.0.1,localhost"
    assert environment["PATH"] == "/bin"
    assert "JSON" not in environment
    assert base["OPENAI_API_KEY"] == "sk-real"
    assert "run-key" not in repr(server)
