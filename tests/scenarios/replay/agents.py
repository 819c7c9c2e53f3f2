"""Agents that call the model in every way that agents do; the reward is made from what the model said."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import urllib.request
from typing import Any, ClassVar


def worth(text: str | None) -> float:
    """A number that depends on every character."""
    return float(sum((n + 1) * ord(c) for n, c in enumerate(text or "")))


def ask(data: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": os.environ["OPENAI_MODEL"], "messages": data["messages"], **more}


def sdk(kwargs: dict[str, Any], **more: Any) -> Any:
    from openai import AsyncOpenAI

    return AsyncOpenAI(base_url=kwargs["base_url"], api_key=kwargs["api_key"], **more)


class AsyncSdk:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        client = sdk(kwargs, http_client=kwargs["http_client"])
        answer = await client.chat.completions.create(**ask(data))
        again = await client.chat.completions.create(**ask(data, temperature=0.5))
        return worth(answer.choices[0].message.content + again.choices[0].message.content + again.id)


class AsyncSdkOfItsOwn:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        from openai import AsyncOpenAI

        async with AsyncOpenAI() as client:
            answer = await client.chat.completions.create(**ask(data))
        return worth(answer.choices[0].message.content)


class Streams:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        client = sdk(kwargs, http_client=kwargs["http_client"])
        parts = [
            part.choices[0].delta.content or ""
            async for part in await client.chat.completions.create(**ask(data, stream=True))
            if part.choices
        ]
        assert len(parts) > 3
        return worth("|".join(parts))


class SyncSdk:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        from openai import OpenAI

        def work() -> float:
            with OpenAI(base_url=kwargs["base_url"], api_key=kwargs["api_key"]) as client:
                return worth(client.chat.completions.create(**ask(data)).choices[0].message.content)

        return await asyncio.to_thread(work)


class BareHttpx:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        headers = {"authorization": f"Bearer {kwargs['api_key']}"}
        answer = await kwargs["http_client"].post(
            kwargs["base_url"] + "/chat/completions", json=ask(data), headers=headers
        )
        return worth(answer.json()["choices"][0]["message"]["content"])


class AnthropicSdk:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        from anthropic import AsyncAnthropic

        said = ""
        async with AsyncAnthropic() as client:
            request: dict[str, Any] = {**ask(data), "max_tokens": 16}
            said += (await client.messages.create(**request)).content[0].text
            async with client.messages.stream(**request) as stream:
                async for text in stream.text_stream:
                    said += text
        return worth(said)


class Responses:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        client = sdk(kwargs, http_client=kwargs["http_client"])
        answer = await client.responses.create(model=os.environ["OPENAI_MODEL"], input="hello")
        return worth(answer.id)


class Many:
    """Many calls at once, equal and different ones, in an order of their own each time."""

    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        client = sdk(kwargs, http_client=kwargs["http_client"])

        async def one(number: int) -> float:
            answer = await client.chat.completions.create(**ask(data, seed=number))
            return worth(answer.id) * number

        return sum(await asyncio.gather(*(one(number) for number in range(1, 20))))


class Aiohttp:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        import aiohttp

        headers = {"authorization": f"Bearer {kwargs['api_key']}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            said = ""
            for stream in (False, True):
                url = kwargs["base_url"] + "/chat/completions"
                async with session.post(url, json=ask(data, stream=stream)) as answer:
                    said += await answer.text()
        return worth(said)


PROGRAM = """
import json, os, urllib.request as u
body = json.dumps({'model': os.environ['OPENAI_MODEL'], 'messages': []}).encode()
key = 'Bearer ' + os.environ['OPENAI_API_KEY']
answer = u.urlopen(u.Request(os.environ['OPENAI_BASE_URL'] + '/chat/completions', body, {'authorization': key}))
print(json.load(answer)['choices'][0]['message']['content'])
"""


def by_urllib(data: dict[str, Any]) -> str:
    headers = {"authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(ask(data)).encode(), headers)) as answer:
        text: str = json.load(answer)["choices"][0]["message"]["content"]
    return text


class Urllib:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        return worth(await asyncio.to_thread(by_urllib, data))


class InASubprocess:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        work = subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
        )  # drydock: ignore[blocking-call]
        return worth(work.stdout)


class InAFork:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        from openai import OpenAI

        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            with OpenAI() as client:
                text = client.chat.completions.create(**ask(data)).choices[0].message.content or ""
            os.write(writing, text.encode())
            os.kill(os.getpid(), 9)
        os.waitpid(child, 0)  # drydock: ignore[blocking-call]
        os.close(writing)
        return worth(os.read(reading, 1000).decode())


class Mixed:
    """The same call from a library that we see in the process and from one that we don't."""

    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        client = sdk(kwargs, http_client=kwargs["http_client"])
        first = await client.chat.completions.create(**ask(data))
        second = await asyncio.to_thread(by_urllib, data)
        third = await client.chat.completions.create(**ask(data))
        return worth(first.id + second + third.id)


class Asks:
    """Asks what the environment says."""

    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        client = sdk(kwargs, http_client=kwargs["http_client"])
        answer = await client.chat.completions.create(**ask(data, stop=os.environ.get("ASK", "recorded")))
        return worth(answer.choices[0].message.content) * float(os.environ.get("FACTOR", "1"))


class AsksForEver:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        client = sdk(kwargs, http_client=kwargs["http_client"])
        for number in range(10**9):
            await client.chat.completions.create(**ask(data, seed=number))
        return 0.0


class Stepped:
    """Is stepped through line by line, as a debugger does it, across its calls."""

    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        import bdb

        class Stepper(bdb.Bdb):
            lines: ClassVar[list[int]] = []

            def user_line(self, frame: Any) -> None:
                if frame.f_code.co_name == "run":
                    self.lines.append(frame.f_lineno)

        client = sdk(kwargs, http_client=kwargs["http_client"])
        stepper = Stepper()
        stepper.set_trace()
        first = await client.chat.completions.create(**ask(data, seed=1))
        second = await client.chat.completions.create(**ask(data, seed=2))
        stepper.set_quit()
        sys.settrace(None)
        print("stepped over", len(set(stepper.lines)), "lines")
        return worth(first.id + second.id)
