"""Rendering where a server says only how many tokens a conversation has: the usage of a chat's answer. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.compare.dialects.answers import usage_of
from harness.compare.dialects.base import OnlyCounted, Request
from harness.compare.dialects.messages import on_the_wire


class Counting:
    """For a dialect to inherit, which has the model's name as ``model``."""

    model: str

    def render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Request | None:
        """See ``Dialect``: only how many tokens they are can be had."""
        body: dict[str, Any] = {"model": self.model, "messages": on_the_wire(messages), "max_tokens": 1}
        return Request("/chat/completions", {**body, "tools": list(tools)} if tools else body)

    def rendered(self, answer: Any) -> list[int] | Request:
        """See ``Dialect``."""
        raise OnlyCounted(usage_of(answer)["prompt_tokens"])
