"""The model is never called, so there is nothing to train on."""

from __future__ import annotations

from typing import Any


class NoLlmCall:
    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> Any:
        return float(len(data["messages"]) > 0)
