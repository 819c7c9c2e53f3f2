"""Agents for stage 4, each with one thing that matters there."""

from __future__ import annotations

import asyncio
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


class WrongTypes(Sound):
    """Returns what the sample calls for; AReaL drops every run of it."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> Any:
        import numpy as np

        await self.ask(data, **extra_kwargs)
        import torch

        wrong = {"int": 1, "bool": True, "none": None, "list": [1.0], "float32": np.float32(1), "text": "1.0",
                 "tensor": torch.tensor(1.0)}  # fmt: skip
        return wrong[data["returns"]]


class Waits(Sound):
    """Waits for what never comes."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> Any:
        await asyncio.Event().wait()


class UnknownId(Sound):
    """Gives its reward to a completion that nobody made."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> Any:
        await self.ask(data, **extra_kwargs)
        return {"chatcmpl-of-nobody": 1.0}


class NoCall(Sound):
    """Gives a reward without having asked the model."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> Any:
        return 1.0


class Raises(Sound):
    """Asks, and then looks for what isn't in its sample."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> Any:
        await self.ask(data, **extra_kwargs)
        return float(data["solution"])


class NotANumber(Sound):
    """Divides nothing by nothing."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> Any:
        await self.ask(data, **extra_kwargs)
        return float("nan")


class TwoTurns(Sound):
    """Asks, and asks again with what was answered."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> Any:
        first = await self.ask(data, **extra_kwargs)
        messages = [*data["messages"], {"role": "assistant", "content": first}, {"role": "user", "content": "Sure?"}]
        return float(await self.ask({**data, "messages": messages}, **extra_kwargs) == data["answer"])


class ByEnvironment(Sound):
    """Is given nothing but its sample, as AReaL runs agents in processes of their own."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> Any:
        assert not extra_kwargs
        return float(await self.ask(data) == data["answer"])
