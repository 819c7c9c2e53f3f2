"""The second call leaves out the oldest message of the first: its history is no longer the beginning of this one."""

from __future__ import annotations

import os
from typing import Any

from openai import AsyncOpenAI


class HistoryRewritten:
    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> Any:
        client = AsyncOpenAI(
            base_url=extra_kwargs["base_url"], api_key=extra_kwargs["api_key"], http_client=extra_kwargs["http_client"]
        )
        messages = list(data["messages"])
        completion = await client.chat.completions.create(
            model=os.environ["OPENAI_MODEL"],
            messages=messages,
            max_tokens=16,
        )
        messages.append({"role": "assistant", "content": completion.choices[0].message.content})
        messages.append({"role": "user", "content": "Are you sure?"})
        completion = await client.chat.completions.create(  # WRONG
            model=os.environ["OPENAI_MODEL"],
            messages=messages[1:],
            max_tokens=16,
        )
        return float(data["answer"] in (completion.choices[0].message.content or ""))
