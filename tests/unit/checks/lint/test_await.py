"""Coroutines that nobody awaits, and those that somebody does in another place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.checks.lint.written import around

ASK = "client.chat.completions.create(messages=[], max_tokens=1)"
METHODS = """
async def later(self, client):
    return client.chat.completions.create(messages=[], max_tokens=1)

def plain(self, client):
    return self.ask(client, [])
"""


@pytest.mark.parametrize(
    "run",
    [
        f"answer = {ASK}\nreturn float(answer.choices[0] == 'a')",
        f"text = {ASK}.choices[0].message.content\nreturn 1.0",
        "return self.judge('a')",
        "reward = self.judge('a')\nreturn reward",
        "return float(self.judge('a'))",
        "if self.judge('a'):\n    return 1.0\nreturn 0.0",
        "return 0.5 * self.judge('a')",
        "self.judge('a')\nreturn 1.0",
        "asyncio.sleep(1)\nreturn 1.0",
        f"async for chunk in {ASK[:-1]}, stream=True):\n    pass\nreturn 1.0",
        "answer = self.plain(client)\nreturn float(answer.choices[0] == 'a')",
        "answer = await self.later(client)\nreturn float(answer.choices[0] == 'a')",
        "answer = await module_level()\nscore = also(answer)\nreturn 1.0 + score",
        "page = httpx.AsyncClient().get('x')\nreturn float(page.text == 'a')",
        "a, b = self.judge('a')\nreturn 1.0",
    ],
)
def test_a_coroutine_in_the_place_of_its_result(tmp_path: Path, run: str) -> None:
    top = "async def module_level():\n    return 1.0\n\nasync def also(one):\n    return 1.0"
    found = around(tmp_path, run, top=top, methods=METHODS)
    assert "await-missing" in found
    assert found["await-missing"].status == "fail"
    assert found["await-missing"].place is not None


@pytest.mark.parametrize(
    "run",
    [
        f"answer = await {ASK}\nreturn float(answer.choices[0] == 'a')",
        f"answer = {ASK}\nanswer = await answer\nreturn float(answer.choices[0] == 'a')",
        f"answers = await asyncio.gather({ASK}, {ASK})\nreturn 1.0",
        f"one = {ASK}\ntwo = {ASK}\nawait asyncio.gather(one, two)\nreturn 1.0",
        f"task = asyncio.create_task({ASK})\nawait task\nreturn 1.0",
        f"answer = await asyncio.wait_for({ASK}, 5)\nreturn 1.0",
        f"jobs = [{ASK} for _ in range(3)]\nawait asyncio.gather(*jobs)\nreturn 1.0",
        f"jobs = []\njobs.append({ASK})\nawait asyncio.gather(*jobs)\nreturn 1.0",
        f"one = {ASK}\nasync def inner():\n    return await one\nawait inner()\nreturn 1.0",
        f"one = {ASK}\none.close()\nreturn 1.0",
        "answer = await self.plain(client)\nreturn float(answer.choices[0] == 'a')",
        "answer = await (await self.later(client))\nreturn float(answer.choices[0] == 'a')",
        "async for one in self.stream():\n    pass\nreturn 1.0",
        "async with client.chat.completions.with_streaming_response.create(messages=[], max_tokens=1) as one:\n"
        "    pass\nreturn 1.0",
        "async with client.chat.completions.stream(messages=[], max_tokens=1) as one:\n    pass\nreturn 1.0",
        "async with httpx.AsyncClient(transport=extra_kwargs).stream('GET', 'x') as one:  # drydock: ignore\n"
        "    pass\nreturn 1.0",
        "job = self.judge('a') if data else None\nreturn 1.0",
        "return await self.judge('a')",
    ],
)
def test_a_coroutine_that_is_awaited_somewhere(tmp_path: Path, run: str) -> None:
    methods = METHODS + "\nasync def stream(self):\n    yield 1"
    assert around(tmp_path, run, methods=methods) == {}
