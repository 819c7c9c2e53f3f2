"""Wrong: the turns are added to the sample, which all runs of a group have at once."""

from __future__ import annotations

import os
from typing import Any

from openai import AsyncOpenAI


class SampleChanged:
    """Asks with what the other runs of the group have said."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        client = AsyncOpenAI(
            base_url=extra_kwargs["base_url"],
            api_key=extra_kwargs["api_key"],
            http_client=extra_kwargs["http_client"],
        )
        messages = data["messages"]
        messages.append({"role": "user", "content": "Answer in one word."})  # WRONG
        completion = await client.chat.completions.create(
            model=os.environ["OPENAI_MODEL"], messages=messages, max_tokens=16
        )
        return float(data["answer"] in (completion.choices[0].message.content or ""))
