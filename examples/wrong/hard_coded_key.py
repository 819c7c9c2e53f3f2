"""Wrong: the key stands in the source; AReaL's proxy gives each run its own."""

from __future__ import annotations

import os
from typing import Any

from openai import AsyncOpenAI


class HardCodedKey:
    """Has always the same key."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        client = AsyncOpenAI(  # WRONG
            base_url=extra_kwargs["base_url"],
            api_key="EMPTY",
            http_client=extra_kwargs["http_client"],
        )
        completion = await client.chat.completions.create(
            model=os.environ["OPENAI_MODEL"], messages=data["messages"], max_tokens=16
        )
        return float(data["answer"] in (completion.choices[0].message.content or ""))
