"""The same question through Anthropic's SDK, against the server's /v1/messages."""

from __future__ import annotations

import os
import re
from typing import Any

from anthropic import AsyncAnthropic

NEW_TOKENS = 16  # see single_turn.py


class AnthropicAgent:
    """Asks the question as it stands, and is rewarded when the answer holds the right word or number."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        base_url = extra_kwargs.get("base_url") or os.getenv("ANTHROPIC_BASE_URL")
        http_client = extra_kwargs.get("http_client")
        client = AsyncAnthropic(
            # This SDK appends /v1/messages by itself; a base URL made for OpenAI's clients ends in /v1 already.
            base_url=base_url.removesuffix("/v1") if base_url else None,
            api_key=extra_kwargs.get("api_key") or os.getenv("ANTHROPIC_API_KEY"),
            http_client=http_client,
        )
        # Anthropic takes the system prompt apart from the conversation.
        system = " ".join(message["content"] for message in data["messages"] if message["role"] == "system")
        conversation = [message for message in data["messages"] if message["role"] != "system"]
        try:
            message = await client.messages.create(
                model=os.getenv("OPENAI_MODEL", "qwen/qwen2.5-0.5b-instruct"),
                system=system,
                messages=conversation,
                max_tokens=NEW_TOKENS,
                # Newer versions of this SDK have no such argument; servers of one's own take it.
                extra_body={"temperature": 1.0},
            )
        finally:
            if http_client is None:
                await client.close()
        text = "".join(block.text for block in message.content if block.type == "text")
        return reward(text, str(data["answer"]))


def reward(text: str, answer: str) -> float:
    """1.0 where the answer stands in the text as a word or number of its own, else 0.0."""
    return float(re.search(rf"(?<![\w.]){re.escape(answer)}(?!\w|\.\d)", text, re.IGNORECASE) is not None)
