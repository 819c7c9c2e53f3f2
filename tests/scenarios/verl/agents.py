"""Agents for stage 4 in verl, each with one thing that matters there; and a reward function."""

from __future__ import annotations

from typing import Any

from openai import AsyncOpenAI


class Sound:
    """Asks twice, the second time with what came before, and returns a float."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> Any:
        client = AsyncOpenAI(**extra_kwargs)
        messages = list(data["messages"])
        for _ in range(2):
            answer = await client.chat.completions.create(model="tiny", messages=messages, max_tokens=16)
            message = answer.choices[0].message
            messages += [message.model_dump(exclude_none=True), {"role": "user", "content": "Sure?"}]
        return float(message.content == data["answer"])


class Rewrites(Sound):
    """Forgets what it asked before."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> Any:
        client = AsyncOpenAI(**extra_kwargs)
        for question in ("One?", "Two?"):
            await client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": question}])
        return 1.0


class Raises(Sound):
    """Takes a key that no sample has."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> Any:
        await super().run(data, **extra_kwargs)
        return float(data["solution"] == "")


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None) -> float:
    """Half a point where the answer is right, so that it is told from any other number."""
    return 0.5 if solution_str == ground_truth else 0.25


def nothing(**_: Any) -> None:
    """Returns none, as a function does that forgets to."""
