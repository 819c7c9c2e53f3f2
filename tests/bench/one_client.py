"""An agent that does nothing but the bare client's call, by one client for all runs: what is left is the harness's."""

from __future__ import annotations

from typing import Any

from openai import AsyncOpenAI

_CLIENTS: dict[str, AsyncOpenAI] = {}


class OneClient:
    """Makes the call that ``bare_openai`` makes."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        """One call."""
        url = extra_kwargs["base_url"]
        if url not in _CLIENTS:
            _CLIENTS[url] = AsyncOpenAI(base_url=url, api_key=extra_kwargs["api_key"])
        await _CLIENTS[url].chat.completions.create(
            model="simulated", messages=data["messages"], max_tokens=16, temperature=1.0
        )
        return 1.0
