"""Wrong: the history is the module's, so all runs of a worker talk in one conversation."""

from __future__ import annotations

import os
from typing import Any

from openai import AsyncOpenAI

HISTORY: list[Any] = []


class SharedState:
    """Goes on where another run has stopped."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        client = AsyncOpenAI(
            base_url=extra_kwargs["base_url"],
            api_key=extra_kwargs["api_key"],
            http_client=extra_kwargs["http_client"],
        )
        HISTORY.extend(data["messages"])  # WRONG
        completion = await client.chat.completions.create(
            model=os.environ["OPENAI_MODEL"], messages=HISTORY, max_tokens=16
        )
        return float(data["answer"] in (completion.choices[0].message.content or ""))
