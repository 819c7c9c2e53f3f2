"""Wrong: the SDK's blocking client in a coroutine; while it waits, nothing else runs."""

from __future__ import annotations

import os
from typing import Any

from openai import OpenAI


class SerialSyncHttp:
    """Asks with OpenAI instead of AsyncOpenAI."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        with OpenAI(base_url=extra_kwargs.get("base_url"), api_key=extra_kwargs.get("api_key")) as client:
            completion = client.chat.completions.create(
                model=os.environ["OPENAI_MODEL"], messages=data["messages"], max_tokens=16, temperature=1.0
            )
        return float(str(data["answer"]) in (completion.choices[0].message.content or ""))
