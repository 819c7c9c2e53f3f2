"""Agents for stage 4, each with one thing that matters there."""

from __future__ import annotations

from typing import Any

from openai import AsyncOpenAI


class Sound:
    """Asks once and returns a float."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> Any:
        return float(await self.ask(data, **extra_kwargs) == data["answer"])

    async def ask(self, data: dict[str, Any], **extra_kwargs: Any) -> str:
        client = AsyncOpenAI(**extra_kwargs)
        answer = await client.chat.completions.create(model="tiny", messages=data["messages"], max_tokens=16)
        return answer.choices[0].message.content or ""


class ReturnsAnInt(Sound):
    """AReaL drops every run of it."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> Any:
        await self.ask(data, **extra_kwargs)
        return 1


class Raises(Sound):
    """Takes a key that no sample has."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> Any:
        await self.ask(data, **extra_kwargs)
        return float(data["solution"] == "")
