"""Wrong: nothing says how long an answer may get."""

from __future__ import annotations

import os
from typing import Any

from openai import AsyncOpenAI


class NoTokenLimit:
    """Lets the model go on."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        client = AsyncOpenAI(
            base_url=extra_kwargs["base_url"],
            api_key=extra_kwargs["api_key"],
            http_client=extra_kwargs["http_client"],
        )
        completion = await client.chat.completions.create(  # WRONG
            model=os.environ["OPENAI_MODEL"], messages=data["messages"]
        )
        return float(data["answer"] in (completion.choices[0].message.content or ""))
