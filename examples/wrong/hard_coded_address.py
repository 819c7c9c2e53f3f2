"""Wrong: the server's address stands in the source, so a framework sees none of the calls."""

from __future__ import annotations

import os
from typing import Any

from openai import AsyncOpenAI


class HardCodedAddress:
    """Asks the server of the day on which it was written."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        client = AsyncOpenAI(  # WRONG
            base_url="http://127.0.0.1:8000/v1",
            api_key=extra_kwargs["api_key"],
            http_client=extra_kwargs["http_client"],
        )
        completion = await client.chat.completions.create(
            model=os.environ["OPENAI_MODEL"], messages=data["messages"], max_tokens=16
        )
        return float(data["answer"] in (completion.choices[0].message.content or ""))
