"""`/v1` is appended to an address that is complete."""

from __future__ import annotations

import os
from typing import Any

from openai import AsyncOpenAI


class V1Appended:
    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> Any:
        client = AsyncOpenAI(
            base_url=f"{extra_kwargs['base_url']}/v1",  # WRONG
            api_key=extra_kwargs["api_key"],
            http_client=extra_kwargs["http_client"],
        )
        completion = await client.chat.completions.create(
            model=os.environ["OPENAI_MODEL"],
            messages=data["messages"],
            max_tokens=16,
        )
        return float(data["answer"] in (completion.choices[0].message.content or ""))
