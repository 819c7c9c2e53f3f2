"""What it asks for is not in its source: only a run shows that the answers aren't sampled."""

from __future__ import annotations

import os
from typing import Any

from openai import AsyncOpenAI


class OptionsFromOutside:
    def __init__(self, **options: Any) -> None:
        self.options = {"temperature": 0, "top_p": 0.5, "seed": 1, **options}

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> Any:
        client = AsyncOpenAI(
            base_url=extra_kwargs["base_url"], api_key=extra_kwargs["api_key"], http_client=extra_kwargs["http_client"]
        )
        completion = await client.chat.completions.create(  # WRONG
            model=os.environ["OPENAI_MODEL"],
            messages=data["messages"],
            **self.options,
        )
        return float(data["answer"] in (completion.choices[0].message.content or ""))
