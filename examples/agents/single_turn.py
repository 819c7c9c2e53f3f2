"""One question, one answer, one reward: the smallest agent that is right.

Right means: it uses the client and the address that it is given, keeps nothing between runs, asks for what training
can use (temperature 1, no top-p, one choice), and returns a float that says something about the answer.
"""

from __future__ import annotations

import os
import re
from typing import Any

from openai import AsyncOpenAI

# Answers here are one word or number, so 16 new tokens are enough. It matters on a CPU: 512 runs at once on a small
# model take two minutes with 16 tokens each, and almost five with 64.
NEW_TOKENS = 16


class SingleTurn:
    """Asks the question as it stands, and is rewarded when the answer holds the right word or number."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        # A framework passes these; in AReaL's subprocess mode nothing is passed and the environment says where.
        base_url = extra_kwargs.get("base_url") or os.getenv("OPENAI_BASE_URL")
        api_key = extra_kwargs.get("api_key") or os.getenv("OPENAI_API_KEY")
        http_client = extra_kwargs.get("http_client")
        # All runs share the http_client, so making this costs little; `async with` would close it for all of them.
        client = AsyncOpenAI(base_url=base_url, api_key=api_key, http_client=http_client)
        try:
            completion = await client.chat.completions.create(
                model=os.getenv("OPENAI_MODEL", "qwen/qwen2.5-0.5b-instruct"),
                messages=data["messages"],
                max_tokens=NEW_TOKENS,
                temperature=1.0,
            )
        finally:
            if http_client is None:
                await client.close()
        return reward(completion.choices[0].message.content or "", str(data["answer"]))


def reward(text: str, answer: str) -> float:
    """1.0 where the answer stands in the text as a word or number of its own, else 0.0."""
    return float(re.search(rf"(?<![\w.]){re.escape(answer)}(?!\w|\.\d)", text, re.IGNORECASE) is not None)
