"""`run` is a plain function; frameworks await it."""

from __future__ import annotations

import os
from typing import Any

from openai import OpenAI


class RunNotAsync:
    def run(self, data: dict[str, Any], **extra_kwargs: Any) -> Any:  # WRONG
        client = OpenAI(base_url=extra_kwargs["base_url"], api_key=extra_kwargs["api_key"])
        completion = client.chat.completions.create(model=os.environ["OPENAI_MODEL"], messages=data["messages"])
        return float(data["answer"] in (completion.choices[0].message.content or ""))
