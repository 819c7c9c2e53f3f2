"""Wrong: a semaphore that was meant to be kind to a laptop, and is still there in training."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from openai import AsyncOpenAI

AT_ONCE = asyncio.Semaphore(4)


class SerialSemaphore:
    """Lets four runs at a time ask the model; the other hundreds stand in line."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        client = AsyncOpenAI(
            base_url=extra_kwargs.get("base_url"),
            api_key=extra_kwargs.get("api_key"),
            http_client=extra_kwargs.get("http_client"),
        )
        async with AT_ONCE:
            completion = await client.chat.completions.create(
                model=os.environ["OPENAI_MODEL"], messages=data["messages"], max_tokens=16, temperature=1.0
            )
        return float(str(data["answer"]) in (completion.choices[0].message.content or ""))
