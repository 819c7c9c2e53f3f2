"""A reward function as AReaL's RLVRWorkflow calls it: the answer's text in, a float out."""

from __future__ import annotations

import re
from typing import Any


def reward(prompt: str, completions: str, prompt_ids: list[int], completion_ids: list[int], **data: Any) -> float:
    """1.0 where the answer stands in the text as a word or number of its own, else 0.0."""
    answer = str(data["answer"])
    return float(re.search(rf"(?<![\w.]){re.escape(answer)}(?!\w|\.\d)", completions, re.IGNORECASE) is not None)
