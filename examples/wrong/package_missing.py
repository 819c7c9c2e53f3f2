"""The module needs a package that the workers don't have."""

from __future__ import annotations

from typing import Any

import a_package_of_this_machine_alone  # WRONG
from openai import AsyncOpenAI


class PackageMissing:
    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> Any:
        client = AsyncOpenAI(**extra_kwargs)
        answer = await client.chat.completions.create(model="default", messages=data["messages"])
        return float(a_package_of_this_machine_alone.score(answer.choices[0].message.content))
