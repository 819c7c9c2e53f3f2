"""`run` can't take what a framework passes."""

from __future__ import annotations

import os
from typing import Any

from openai import AsyncOpenAI


class RunSignature:
    def __init__(self) -> None:
        self.client = AsyncOpenAI()

    async def run(self, data: dict[str, Any]) -> Any:  # WRONG
        completion = await self.client.chat.completions.create(
            model=os.environ["OPENAI_MODEL"],
            messages=data["messages"],
            max_tokens=16,
        )
        return float(data["answer"] in (completion.choices[0].message.content or ""))
