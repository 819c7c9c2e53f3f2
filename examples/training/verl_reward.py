"""A reward function as verl's reward managers call it: the answer's text in, a float out."""

from __future__ import annotations

import re
from typing import Any


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None) -> float:
    """1.0 where the answer stands in the text as a word or number of its own, else 0.0."""
    return float(re.search(rf"(?<![\w.]){re.escape(ground_truth)}(?!\w|\.\d)", solution_str, re.IGNORECASE) is not None)
