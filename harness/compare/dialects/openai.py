"""Any server with OpenAI's completions that takes token ids as a prompt and names its tokens by texts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.compare.dialects.answers import choice_of, number, usage_of
from harness.compare.dialects.base import Decoded, NotThere, Request, Scored, WithoutImages
from harness.compare.dialects.counting import Counting
from harness.compare.model import Sampling


@dataclass(frozen=True)
class OpenAI(Counting, WithoutImages):
    """What all of them have: log-probs of sampling, and no others."""

    model: str
    name: str = "openai"
    prefills: bool = False

    def decode(self, prompt: Sequence[int], sampling: Sampling, salt: str = "") -> Request:  # noqa: ARG002
        """See ``Dialect``; there is no salt."""
        return Request(
            "/completions",
            {
                "model": self.model,
                "prompt": list(prompt),
                "max_tokens": sampling.max_tokens,
                "temperature": sampling.temperature,
                "top_p": sampling.top_p,
                "logprobs": 1,
                **({} if sampling.seed is None else {"seed": sampling.seed}),
            },
        )

    def decoded(self, answer: Any) -> Decoded:
        """See ``Dialect``: completions' own form, or the chat's."""
        choice = choice_of(answer)
        found = choice.get("logprobs") or {}
        if entries := found.get("content"):
            pieces = [str(entry.get("token", "")) for entry in entries]
            logprobs = [number(entry.get("logprob")) for entry in entries]
        else:
            pieces = [str(token) for token in found.get("tokens") or ()]
            logprobs = [number(value) for value in found.get("token_logprobs") or ()] if pieces else []
        if choice.get("text") and not pieces:
            raise NotThere("log-probs of the output")
        return Decoded(ids=[], logprobs=logprobs, pieces=pieces, **around(choice), **usage_of(answer))

    def prefill(self, prompt: Sequence[int], output: Sequence[int]) -> Request:  # noqa: ARG002
        """There is no way."""
        raise NotThere("log-probs of a prompt")

    def prefilled(self, answer: Any, prompt: Sequence[int], output: Sequence[int]) -> Scored:  # noqa: ARG002
        """There is no way."""
        raise NotThere("log-probs of a prompt")

    def spell(self, ids: Sequence[int]) -> Request | None:  # noqa: ARG002
        """There is no way."""
        return None

    def spelt(self, answer: Any) -> str:  # noqa: ARG002
        """There is no way."""
        raise NotThere("the texts of token ids")


def around(choice: Mapping[str, Any]) -> dict[str, Any]:
    """What stands beside the log-probs of a choice."""
    return {"text": choice.get("text") or "", "finish": choice.get("finish_reason") or ""}


DIALECT, TRIED = OpenAI, 90
