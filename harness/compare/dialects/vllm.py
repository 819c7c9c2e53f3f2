"""vLLM: ``POST /v1/completions`` with ``prompt_logprobs``; tokens are named by their ids. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.compare.dialects.answers import choice_of, ids_of, number, text_of, usage_of
from harness.compare.dialects.base import Decoded, NotThere, Request, Scored, in_full
from harness.compare.dialects.messages import on_the_wire
from harness.compare.images import to_server
from harness.compare.model import Sampling


@dataclass(frozen=True)
class VLLM:
    """vLLM, of any version that has ``return_tokens_as_token_ids`` (0.6.4 and later)."""

    model: str
    name: str = "vllm"
    prefills: bool = True

    def decode(self, prompt: Sequence[int], sampling: Sampling, salt: str = "") -> Request:
        """See ``Dialect``."""
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": list(prompt),
            "max_tokens": sampling.max_tokens,
            **in_full(sampling),
            "logprobs": 1,
            "return_tokens_as_token_ids": True,
        }
        if sampling.seed is not None:
            body["seed"] = sampling.seed
        return Request("/completions", {**body, "cache_salt": salt} if salt else body)

    def decoded(self, answer: Any) -> Decoded:
        """See ``Dialect``."""
        choice = choice_of(answer)
        found = choice.get("logprobs") or {}
        tokens, logprobs = found.get("tokens") or [], found.get("token_logprobs") or []
        if not tokens and choice.get("text"):
            raise NotThere("log-probs of the output")
        tops = [max(top, key=lambda key: top[key]) if top else "" for top in found.get("top_logprobs") or []]
        return Decoded(
            ids=[_token_id(token) for token in tokens],
            logprobs=[number(value) for value in logprobs],
            top=[_token_id(token) for token in tops] if all(tops) else [],
            text=choice.get("text") or "",
            finish=choice.get("finish_reason") or "",
            prompt_ids=choice.get("prompt_token_ids") or [],
            **usage_of(answer),
        )

    def chat(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], sampling: Sampling
    ) -> Request | None:
        """See ``Dialect``; the first of the top log-probs is always the sampled token's, so two are asked for."""
        body = {
            **self.decode((), sampling).body,
            "messages": to_server(on_the_wire(messages)),
            "logprobs": True,
            "top_logprobs": 2,
            "return_token_ids": True,
        }
        del body["prompt"]
        return Request("/chat/completions", {**body, "tools": list(tools)} if tools else body)

    def chatted(self, answer: Any) -> Decoded:
        """See ``Dialect``."""
        choice = choice_of(answer)
        entries = (choice.get("logprobs") or {}).get("content") or []
        said = (choice.get("message") or {}).get("content") or ""
        if not entries and said:
            raise NotThere("log-probs of the output")
        tops = [max(entry.get("top_logprobs") or [entry], key=lambda one: number(one["logprob"])) for entry in entries]
        return Decoded(
            ids=[_token_id(entry.get("token")) for entry in entries],
            logprobs=[number(entry.get("logprob")) for entry in entries],
            top=[_token_id(top.get("token")) for top in tops],
            text=said,
            finish=choice.get("finish_reason") or "",
            prompt_ids=answer.get("prompt_token_ids") or [],
            **usage_of(answer),
        )

    def prefill(self, prompt: Sequence[int], output: Sequence[int]) -> Request:
        """See ``Dialect``."""
        return Request(
            "/completions",
            {
                "model": self.model,
                "prompt": [*prompt, *output],
                "max_tokens": 1,
                "temperature": 0.0,
                "prompt_logprobs": 1,
            },
        )

    def prefilled(self, answer: Any, prompt: Sequence[int], output: Sequence[int]) -> Scored:
        """See ``Dialect``; entries are picked by token id, since the first isn't always the token's own."""
        found = choice_of(answer).get("prompt_logprobs")
        if not found:
            raise NotThere("prompt_logprobs")
        if len(found) != len(prompt) + len(output):
            raise NotThere(f"prompt_logprobs of {len(prompt) + len(output)} tokens: there are {len(found)}")
        logprobs, tops = [], []
        for token, entries in zip(output, found[len(prompt) :], strict=True):
            if not entries or str(token) not in entries:
                raise NotThere(f"the log-prob of token {token} in prompt_logprobs")
            logprobs.append(number(entries[str(token)]["logprob"]))
            tops.append(int(max(entries, key=lambda key: number(entries[key]["logprob"]))))
        return Scored(logprobs, tops)

    def render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Request | None:
        """See ``Dialect``."""
        body: dict[str, Any] = {"model": self.model, "messages": on_the_wire(messages), "add_generation_prompt": True}
        return Request("/tokenize", {**body, "tools": list(tools)} if tools else body, at_root=True)

    def rendered(self, answer: Any) -> list[int] | Request:
        """See ``Dialect``."""
        return ids_of(answer, "tokens")

    def spell(self, ids: Sequence[int]) -> Request | None:
        """See ``Dialect``."""
        return Request("/detokenize", {"model": self.model, "tokens": list(ids)}, at_root=True)

    def spelt(self, answer: Any) -> str:
        """See ``Dialect``."""
        return text_of(answer, "prompt")


def _token_id(token: Any) -> int:
    text = str(token)
    if not text.startswith("token_id:"):
        raise NotThere("token ids (return_tokens_as_token_ids)")
    return int(text.removeprefix("token_id:"))


DIALECT, TRIED = VLLM, 10
