"""Wrong: one lock around the whole run, so that only one run is ever at work."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from openai import AsyncOpenAI


class SerialLock:
    """Guards something that no two runs share."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        client = AsyncOpenAI(
            base_url=extra_kwargs.get("base_url"),
            api_key=extra_kwargs.get("api_key"),
            http_client=extra_kwargs.get("http_client"),
        )
        async with self.lock:
            completion = await client.chat.completions.create(
                model=os.environ["OPENAI_MODEL"], messages=data["messages"], max_tokens=16, temperature=1.0
            )
        return float(str(data["answer"]) in (completion.choices[0].message.content or ""))
