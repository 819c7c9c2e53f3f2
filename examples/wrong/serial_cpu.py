"""Wrong: a reward that computes for long in the event loop, where all other runs wait for it."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from openai import AsyncOpenAI


class SerialCpu:
    """Grades its answer by heavy computing."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        client = AsyncOpenAI(
            base_url=extra_kwargs.get("base_url"),
            api_key=extra_kwargs.get("api_key"),
            http_client=extra_kwargs.get("http_client"),
        )
        completion = await client.chat.completions.create(
            model=os.environ["OPENAI_MODEL"], messages=data["messages"], max_tokens=16, temperature=1.0
        )
        return self.grade(completion.choices[0].message.content or "", str(data["answer"]))

    def grade(self, text: str, answer: str) -> float:
        digest = text.encode()
        for _ in range(150_000):
            digest = hashlib.sha256(digest).digest()
        return float(answer in text and bool(digest))
