"""What a dialect is: questions in it, and what was found in the answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from harness.compare.model import Sampling


class NotThere(Exception):
    """An answer doesn't have what was asked for; says what."""


@dataclass(frozen=True)
class Request:
    """A POST; ``at_root`` is without the base URL's ``/v1``."""

    path: str
    body: Mapping[str, Any]
    at_root: bool = False


@dataclass(frozen=True)
class Decoded:
    """A sampled output.

    Args:
        ids: token ids; empty where the server names only texts, which ``pieces`` has then.
        top: most likely token at each position; empty where the server doesn't say.
        prompt: the prompt as the server counted it: ids, or only how many.
    """

    ids: list[int]
    logprobs: list[float]
    top: list[int] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    text: str = ""
    finish: str = ""
    prompt_ids: list[int] = field(default_factory=list)
    prompt_tokens: int | None = None
    cached: int | None = None


@dataclass(frozen=True)
class Scored:
    """Log-probs of given tokens, and the most likely token at each position."""

    logprobs: list[float]
    top: list[int]


def in_full(sampling: Sampling) -> dict[str, Any]:
    """How tokens are to be drawn, by the names that vLLM and SGLang share.

    All of it is said, also what changes nothing: a server takes what is left out from the model's generation_config.
    """
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k or -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "skip_special_tokens": False,
    }


class Dialect(Protocol):
    """One kind of server."""

    @property
    def name(self) -> str:
        """Of the engine."""

    @property
    def prefills(self) -> bool:
        """Whether it gives log-probs of a prompt."""

    def decode(self, prompt: Sequence[int], sampling: Sampling, salt: str = "") -> Request:
        """Sample an output; with a salt the prefix cache of others isn't used."""

    def decoded(self, answer: Any) -> Decoded:
        """Read it."""

    def chat(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], sampling: Sampling
    ) -> Request | None:
        """Sample an answer to a conversation with images; None where an answer's token ids can't be had."""

    def chatted(self, answer: Any) -> Decoded:
        """Read it."""

    def prefill(self, prompt: Sequence[int], output: Sequence[int]) -> Request:
        """Ask for the log-probs of given tokens."""

    def prefilled(self, answer: Any, prompt: Sequence[int], output: Sequence[int]) -> Scored:
        """Read them."""

    def render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Request | None:
        """Have the server apply its own chat template; None where it can't tell what came of it."""

    def rendered(self, answer: Any) -> list[int] | Request:
        """Read the token ids, or what has to be asked next to get them."""

    def spell(self, ids: Sequence[int]) -> Request | None:
        """Ask what token ids are as text; None where it can't tell."""

    def spelt(self, answer: Any) -> str:
        """Read it."""


class WithoutImages:
    """For a dialect to inherit that can't name the tokens of a chat."""

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],  # noqa: ARG002
        tools: Sequence[Mapping[str, Any]],  # noqa: ARG002
        sampling: Sampling,  # noqa: ARG002
    ) -> Request | None:
        """There is no way."""
        return None

    def chatted(self, answer: Any) -> Decoded:  # noqa: ARG002
        """There is no way."""
        raise NotThere("token ids of a chat")


class OnlyCounted(NotThere):
    """A server that says how many tokens a rendered conversation has, and not which."""

    def __init__(self, count: int | None) -> None:
        super().__init__("token ids of a rendered conversation")
        self.count = count


def counted(error: NotThere) -> int | None:
    """How many tokens the server counted, where that is all it says."""
    return error.count if isinstance(error, OnlyCounted) else None
