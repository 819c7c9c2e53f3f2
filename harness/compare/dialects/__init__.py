"""How each kind of server is asked for log-probs by token ids, and where they stand in its answer; a file each. Pure.

A further engine is one file with a class that has what ``base.Dialect`` asks for, its name in ``DIALECTS``, and one
test (tests/unit/compare/dialects). Nothing else in ``compare`` knows engines apart.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.compare.dialects.base import Decoded, Dialect, NotThere, Request, Scored, counted
from harness.compare.dialects.llamacpp import LlamaCpp
from harness.compare.dialects.messages import in_a_template
from harness.compare.dialects.openai import OpenAI
from harness.compare.dialects.sglang import SGLang
from harness.compare.dialects.vllm import VLLM

# In the order in which a server is tried: who can more first, since a later one may fit as well and see less.
DIALECTS: tuple[Callable[[str], Dialect], ...] = (VLLM, SGLang, LlamaCpp, OpenAI)

__all__ = ["DIALECTS", "Decoded", "Dialect", "NotThere", "Request", "Scored", "counted", "in_a_template"]
