"""A breakpoint that was forgotten: the run stands there until somebody attaches."""

from __future__ import annotations

import os
from typing import Any

from openai import AsyncOpenAI


class LeftBreakpoint:
    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> Any:
        client = AsyncOpenAI(
            base_url=extra_kwargs["base_url"], api_key=extra_kwargs["api_key"], http_client=extra_kwargs["http_client"]
        )
        completion = await client.chat.completions.create(
            model=os.environ["OPENAI_MODEL"], messages=data["messages"], max_tokens=16
        )
        breakpoint()  # WRONG
        return float(data["answer"] in (completion.choices[0].message.content or ""))
