"""The tutorial's agent: it runs without an error, and three things in it are wrong (docs/tutorial.md finds them)."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from openai import AsyncOpenAI

# Left over from a provider that allowed one request at a time.
POLITE = asyncio.Semaphore(1)


class MyAgent:
    """Asks the question, and is rewarded when the right word is in the answer."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> Any:
        client = AsyncOpenAI(
            base_url=extra_kwargs.get("base_url"),
            api_key=extra_kwargs.get("api_key"),
            http_client=extra_kwargs.get("http_client"),
        )
        async with POLITE:
            completion = await client.chat.completions.create(
                model=os.environ["OPENAI_MODEL"], messages=data["messages"], max_tokens=16, temperature=1.0
            )
        await client.close()
        return int(data["answer"] in (completion.choices[0].message.content or ""))
