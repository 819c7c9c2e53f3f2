"""Wrong: the call isn't awaited, so there is a coroutine in the place of an answer."""

from __future__ import annotations

import os
from typing import Any

from openai import AsyncOpenAI


class AwaitMissing:
    """Compares what isn't there."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        client = AsyncOpenAI(
            base_url=extra_kwargs["base_url"],
            api_key=extra_kwargs["api_key"],
            http_client=extra_kwargs["http_client"],
        )
        completion = client.chat.completions.create(  # WRONG
            model=os.environ["OPENAI_MODEL"], messages=data["messages"], max_tokens=16
        )
        return float(data["answer"] in completion.choices[0].message.content)
