"""llama.cpp's server: OpenAI's completions with token ids in ``logprobs.content``, and tokenizer routes. Pure.

Its prompt log-probs can't be had: ``prompt_logprobs`` and ``echo`` are ignored without a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.compare.dialects.answers import choice_of, ids_of, number, text_of, usage_of
from harness.compare.dialects.base import Decoded, NotThere, Request
from harness.compare.dialects.messages import on_the_wire
from harness.compare.dialects.openai import OpenAI, around


@dataclass(frozen=True)
class LlamaCpp(OpenAI):
    """What it has beyond the others of its kind."""

    name: str = "llama.cpp"

    def decoded(self, answer: Any) -> Decoded:
        """See ``Dialect``."""
        choice = choice_of(answer)
        entries = (choice.get("logprobs") or {}).get("content") or []
        if not all("id" in entry for entry in entries) or (choice.get("text") and not entries):
            raise NotThere("token ids in logprobs.content")
        tops = [(entry.get("top_logprobs") or [{}])[0].get("id") for entry in entries]
        return Decoded(
            ids=[int(entry["id"]) for entry in entries],
            logprobs=[number(entry.get("logprob")) for entry in entries],
            top=[int(top) for top in tops if top is not None] if None not in tops else [],
            pieces=[str(entry.get("token", "")) for entry in entries],
            **around(choice),
            **usage_of(answer),
        )

    def render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Request | None:
        """See ``Dialect``: first the text that its template makes."""
        body: dict[str, Any] = {"messages": on_the_wire(messages)}
        return Request("/apply-template", {**body, "tools": list(tools)} if tools else body, at_root=True)

    def rendered(self, answer: Any) -> list[int] | Request:
        """See ``Dialect``: then that text's tokens, special ones among them, as for a chat."""
        if isinstance(answer, Mapping) and "tokens" in answer:
            return ids_of(answer, "tokens")
        content = text_of(answer, "prompt")
        return Request("/tokenize", {"content": content, "add_special": True, "parse_special": True}, at_root=True)

    def spell(self, ids: Sequence[int]) -> Request | None:
        """See ``Dialect``."""
        return Request("/detokenize", {"tokens": list(ids)}, at_root=True)

    def spelt(self, answer: Any) -> str:
        """See ``Dialect``."""
        return text_of(answer, "content")


DIALECT, TRIED = LlamaCpp, 30
