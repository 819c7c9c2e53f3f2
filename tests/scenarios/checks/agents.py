"""Agents that do what agents do wrong, one class each; run by the tests beside this file.

The SDK is imported where it is used: it takes a second, and half of these never get to use it.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any


async def ask(data: dict[str, Any], kwargs: dict[str, Any], **more: Any) -> Any:
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=kwargs["base_url"], api_key=kwargs["api_key"], http_client=kwargs["http_client"])
    return await client.chat.completions.create(model=os.environ["OPENAI_MODEL"], messages=data["messages"], **more)


class Good:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        await ask(data, kwargs)
        return 1.0


class OnePerCall:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> dict[str, float]:
        first, second = await ask(data, kwargs), await ask(data, kwargs)
        return {first.id: 0.5, second.id: 1.0}


class Streams:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        async for _ in await ask(data, kwargs, stream=True, stream_options={"include_usage": True}):
            pass
        return 1.0


class OwnClientFromTheEnvironment:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        from openai import AsyncOpenAI

        async with AsyncOpenAI() as client:
            await client.chat.completions.create(
                model=os.environ["OPENAI_MODEL"], messages=data["messages"], max_tokens=16
            )
        return 1.0


class SyncClientInAThread:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        def work() -> None:
            from openai import OpenAI

            with OpenAI() as client:
                client.chat.completions.create(model=os.environ["OPENAI_MODEL"], messages=data["messages"])

        await asyncio.to_thread(work)
        return 1.0


class InASubprocess:
    """Calls from another program, here without any SDK."""

    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        program = (
            "import json, os, urllib.request as u\n"
            "body = json.dumps({'model': os.environ['OPENAI_MODEL'], 'messages': []}).encode()\n"
            "key = 'Bearer ' + os.environ['OPENAI_API_KEY']\n"
            "u.urlopen(u.Request(os.environ['OPENAI_BASE_URL'] + '/chat/completions', body, {'authorization': key}))\n"
        )
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
        assert await process.wait() == 0
        return 1.0


class NeedsArguments:
    def __init__(self, reward: float) -> None:
        self.reward = reward

    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        await ask(data, kwargs)
        return self.reward


class NotAsync:
    def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        return 1.0


class NoRun:
    pass


class TakesNoArguments:
    async def run(self, data: dict[str, Any]) -> float:
        return 1.0


class FailsWhenMade:
    def __init__(self) -> None:
        raise RuntimeError("no licence")

    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        return 1.0


class Raises:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        await ask(data, kwargs)
        return self.deep(data)

    def deep(self, data: dict[str, Any]) -> float:
        return float(data["no such field"])


class RaisesInTheSdk:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        await ask(data, kwargs, extra_body={"model": "some-other-model"})
        return 1.0


class ReturnsAnInt:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> Any:
        await ask(data, kwargs)
        if data:
            return 1
        return 0.0


class ReturnsNothing:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> Any:
        await ask(data, kwargs)


class ReturnsNan:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        await ask(data, kwargs)
        return float("nan")


class ReturnsText:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> Any:
        await ask(data, kwargs)
        return "a good answer"


class MakesNoCall:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        return 1.0


class ClosesTheSharedClient:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        from openai import AsyncOpenAI

        async with AsyncOpenAI(
            base_url=kwargs["base_url"], api_key=kwargs["api_key"], http_client=kwargs["http_client"]
        ) as client:
            await client.chat.completions.create(model=os.environ["OPENAI_MODEL"], messages=data["messages"])
        return 1.0


class AppendsV1:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        await ask(data, {**kwargs, "base_url": kwargs["base_url"] + "/v1"})
        return 1.0


class WaitsForEver:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        return await self.wait()

    async def wait(self) -> float:
        await asyncio.Event().wait()
        return 1.0


class WaitsForTheModel:
    """Without an SDK, whose import may take longer than the limit that the test sets."""

    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        headers = {"authorization": f"Bearer {kwargs['api_key']}"}
        body = {"model": os.environ["OPENAI_MODEL"], "messages": data["messages"]}
        await kwargs["http_client"].post(f"{kwargs['base_url']}/chat/completions", json=body, headers=headers)
        return 1.0


class Gathers:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        await asyncio.gather(self.quick(), self.stuck())
        return 1.0

    async def quick(self) -> None:
        await asyncio.sleep(0)

    async def stuck(self) -> None:
        await asyncio.Queue[int]().get()


class Blocks:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        time.sleep(10_000)
        return 1.0


class HoldsTheInterpreter:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        re.match(r"(a+)+$", "a" * 64 + "b")
        return 1.0


class SwallowsCancelling:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        while True:
            try:
                await asyncio.sleep(10_000)
            except asyncio.CancelledError:
                pass


class Exits:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        await ask(data, kwargs)
        sys.exit(3)


class ExitsInATask:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        await asyncio.create_task(self.leave())
        return 1.0

    async def leave(self) -> None:
        sys.exit(5)


class ExitsHard:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        await ask(data, kwargs)
        os._exit(4)


class Crashes:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        ctypes.string_at(0)
        return 1.0


class KillsItself:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        os.kill(os.getpid(), 9)
        return 1.0


class Floods:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        for _ in range(5000):
            print("x" * 1000)
            print("y" * 1000, file=sys.stderr)
        await ask(data, kwargs)
        return 1.0


class LeavesThingsBehind:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        await ask(data, kwargs)
        self.task = asyncio.create_task(asyncio.sleep(10_000), name="left-task")
        threading.Thread(target=time.sleep, args=(0.5,), name="left-thread").start()
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(10_000)"], start_new_session=True)
        print(f"left-process {child.pid}")
        return 1.0


class Forks:
    """A fork that lives on holds the pipes open; the report must not wait for it."""

    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        await ask(data, kwargs)
        if (pid := os.fork()) == 0:
            time.sleep(10_000)
        print(f"left-process {pid}")
        return 1.0


class StartsAChild:
    """A child in its own group, as `multiprocessing` and a tool's subprocess are; says who runs."""

    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(10_000)"])
        Path("started.part").write_text(f"{os.getpid()} {child.pid}")
        Path("started.part").rename("started")
        await asyncio.sleep(10_000)
        return 1.0


class PrintsSecrets:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        await ask(data, kwargs)
        print("environment:", dict(os.environ))
        print("another provider's: sk-another-providers-key-0123456789")
        return 1.0


class ReadsItsInput:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        assert sys.stdin.read() == ""
        await ask(data, kwargs)
        return 1.0


class KillsTheServer:
    """Once some runs are over; the sample says which process and when."""

    done = 0

    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        await ask(data, kwargs)
        KillsTheServer.done += 1
        if KillsTheServer.done == data["after"]:
            os.kill(data["kill"], 9)
        return 1.0


class SaysThatItRuns:
    runs = 0

    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        await ask(data, kwargs)
        SaysThatItRuns.runs += 1
        if SaysThatItRuns.runs > 2:
            Path("running").touch()
            await asyncio.sleep(10_000)
        return 1.0


class HidesWhatItDoes:
    """Blocks, and leaves state, where no source shows it."""

    def __init__(self) -> None:
        self.turn = 0

    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        setattr(self, "tu" + "rn", 3)
        getattr(time, "sle" + "ep")(0.4)
        await ask(data, kwargs)
        return 1.0
