"""What is passed between gathering, deciding and showing: plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Conversation:
    """What the model is asked once.

    Args:
        line: where it stands in the data, counted from 1.
        messages: up to where the model speaks; empty where ``text`` or ``ids`` is given.
        tools: definitions, as OpenAI's API takes them.
        text: a plain prompt instead, without a template.
        ids: a prompt as token ids instead.
        output, logprobs: what was sampled and recorded earlier; empty where the server is to sample.
        row: the whole line.
        images: how many there are in the messages.
    """

    line: int
    messages: Sequence[Mapping[str, Any]] = ()
    tools: Sequence[Mapping[str, Any]] = ()
    text: str | None = None
    ids: Sequence[int] = ()
    output: Sequence[int] = ()
    logprobs: Sequence[float] = ()
    row: Mapping[str, Any] = field(default_factory=dict, compare=False)
    images: int = 0


@dataclass(frozen=True)
class Sampling:
    """How outputs are sampled; the defaults are the only ones under which an engine's log-probs mean the model's.

    Args:
        max_tokens: of an output.
        temperature, top_p: 1 leaves the distribution as it is.
        top_k: 0: all tokens.
        seed: None: each request has its own; vLLM's CPU build (0.32) dies of one in a batch with a prompt that it
            reads in parts.
    """

    max_tokens: int = 64
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None

    @property
    def plain(self) -> bool:
        """Whether tokens are drawn from the model's own distribution."""
        return self.temperature == 1.0 and self.top_p == 1.0 and self.top_k == 0


@dataclass
class Sample:
    """One output of the engine, and what the engine says about it.

    Args:
        id: number of the sample, from 0.
        line: of the data.
        prompt, output: token ids.
        decode: log-prob of each token of the output as it was sampled.
        prefill: the same when the engine reads prompt and output as one prompt; empty where it can't.
        top: the engine's most likely token at each position, from prefill or, without it, from decoding.
        finish: ``stop``, ``length`` …
        cached: prompt tokens that came from the prefix cache, where the engine says so.
        problem: why there is nothing to compare; empty where there is.
        messages: the conversation, where it has images: token ids alone don't say what they show.
        tools: of such a conversation.
    """

    id: int
    line: int
    prompt: list[int] = field(default_factory=list)
    output: list[int] = field(default_factory=list)
    decode: list[float] = field(default_factory=list)
    prefill: list[float] = field(default_factory=list)
    top: list[int] = field(default_factory=list)
    text: str = ""
    finish: str = ""
    cached: int | None = None
    problem: str = ""
    messages: list[dict[str, Any]] = field(default_factory=list)
    tools: list[Any] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def to_score(self, prompt: Sequence[int] | None = None) -> dict[str, Any]:
        """As the reference's process takes it.

        Args:
            prompt: another one, to see what that makes.
        """
        row = {"id": self.id, "prompt": list(self.prompt if prompt is None else prompt), "output": self.output}
        return {**row, "messages": self.messages, "tools": self.tools} if self.messages else row


@dataclass
class Score:
    """What the reference says about one sample's output.

    Args:
        logprobs: of each token of the output.
        top: most likely token at each position; empty where it isn't known.
    """

    id: int
    logprobs: list[float]
    top: list[int] = field(default_factory=list)
