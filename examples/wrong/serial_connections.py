"""Wrong: an HTTP client of its own with eight connections, whatever the number of runs."""

from __future__ import annotations

import os
from typing import Any

from httpx2 import Limits
from openai import AsyncOpenAI, DefaultAsyncHttpxClient


class SerialConnections:
    """Shares one client among all runs, and eight connections among all their calls."""

    def __init__(self) -> None:
        self.http_client = DefaultAsyncHttpxClient(limits=Limits(max_connections=8))

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        client = AsyncOpenAI(
            base_url=extra_kwargs.get("base_url"), api_key=extra_kwargs.get("api_key"), http_client=self.http_client
        )
        completion = await client.chat.completions.create(
            model=os.environ["OPENAI_MODEL"], messages=data["messages"], max_tokens=16, temperature=1.0
        )
        return float(str(data["answer"]) in (completion.choices[0].message.content or ""))
