"""The reward is no number where there is nothing to count."""

from __future__ import annotations

import math
import os
from typing import Any

from openai import AsyncOpenAI


class RewardNan:
    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> Any:
        client = AsyncOpenAI(
            base_url=extra_kwargs["base_url"], api_key=extra_kwargs["api_key"], http_client=extra_kwargs["http_client"]
        )
        completion = await client.chat.completions.create(
            model=os.environ["OPENAI_MODEL"],
            messages=data["messages"],
            max_tokens=16,
        )
        words = [word for word in (completion.choices[0].message.content or "").split() if word == "never said"]
        return sum(map(len, words)) / len(words) if words else math.nan  # WRONG
