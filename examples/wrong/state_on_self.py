"""A run's messages are kept on the object, which all runs of a group share."""

from __future__ import annotations

import os
from typing import Any

from openai import AsyncOpenAI


class StateOnSelf:
    def __init__(self) -> None:
        self.messages: list[Any] = []

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> Any:
        self.messages.extend(data["messages"])  # WRONG
        client = AsyncOpenAI(
            base_url=extra_kwargs["base_url"], api_key=extra_kwargs["api_key"], http_client=extra_kwargs["http_client"]
        )
        completion = await client.chat.completions.create(
            model=os.environ["OPENAI_MODEL"],
            messages=self.messages,
            max_tokens=16,
        )
        return float(data["answer"] in (completion.choices[0].message.content or ""))
