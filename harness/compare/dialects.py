"""How each kind of server is asked for log-probs by token ids, and where they stand in its answer. Pure.

vLLM: ``POST /v1/completions`` with ``prompt_logprobs``. SGLang: ``POST /generate``. Anything else that speaks OpenAI's
completions and takes token ids as a prompt gives the log-probs of sampling, as far as it names its tokens' ids.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from harness.compare.model import Sampling

# vLLM writes this for −inf, which JSON has not.
_FLOOR = -9999.0


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

    def prefill(self, prompt: Sequence[int], output: Sequence[int]) -> Request:
        """Ask for the log-probs of given tokens."""

    def prefilled(self, answer: Any, prompt: Sequence[int], output: Sequence[int]) -> Scored:
        """Read them."""

    def render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Request | None:
        """Have the server apply its own chat template; None where it can't tell what came of it."""

    def rendered(self, answer: Any) -> list[int]:
        """Read the token ids."""

    def spell(self, ids: Sequence[int]) -> Request:
        """Ask what token ids are as text."""

    def spelt(self, answer: Any) -> str:
        """Read it."""


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
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            # Said, though they change nothing: a server takes what is left out from the model's generation_config.
            "top_k": sampling.top_k or -1,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "logprobs": 1,
            "return_tokens_as_token_ids": True,
            "skip_special_tokens": False,
        }
        if sampling.seed is not None:
            body["seed"] = sampling.seed
        return Request("/completions", {**body, "cache_salt": salt} if salt else body)

    def decoded(self, answer: Any) -> Decoded:
        """See ``Dialect``."""
        choice = _choice(answer)
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
            **_usage(answer),
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
        found = _choice(answer).get("prompt_logprobs")
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

    def rendered(self, answer: Any) -> list[int]:
        """See ``Dialect``."""
        return _ids(answer, "tokens")

    def spell(self, ids: Sequence[int]) -> Request:
        """See ``Dialect``."""
        return Request("/detokenize", {"model": self.model, "tokens": list(ids)}, at_root=True)

    def spelt(self, answer: Any) -> str:
        """See ``Dialect``."""
        return _text(answer, "prompt")


@dataclass(frozen=True)
class SGLang:
    """SGLang's own ``/generate``."""

    model: str
    name: str = "sglang"
    prefills: bool = True

    def decode(self, prompt: Sequence[int], sampling: Sampling, salt: str = "") -> Request:
        """See ``Dialect``; there is no salt, and the seed is the server's."""
        parameters: dict[str, Any] = {
            "max_new_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k or -1,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "skip_special_tokens": False,
        }
        return Request(
            "/generate",
            {
                "input_ids": list(prompt),
                "sampling_params": parameters,
                "return_logprob": True,
                "top_logprobs_num": 1,
                **({"extra_key": salt} if salt else {}),
            },
            at_root=True,
        )

    def decoded(self, answer: Any) -> Decoded:
        """See ``Dialect``."""
        about = _about(answer)
        entries = about.get("output_token_logprobs") or []
        if not entries and answer.get("text"):
            raise NotThere("meta_info.output_token_logprobs")
        finish = about.get("finish_reason")
        return Decoded(
            ids=[int(entry[1]) for entry in entries],
            logprobs=[number(entry[0]) for entry in entries],
            top=_tops(about.get("output_top_logprobs"), len(entries)),
            text=answer.get("text") or "",
            finish=str(finish.get("type", "") if isinstance(finish, Mapping) else finish or ""),
            prompt_tokens=about.get("prompt_tokens"),
            cached=about.get("cached_tokens"),
        )

    def prefill(self, prompt: Sequence[int], output: Sequence[int]) -> Request:
        """See ``Dialect``; the first entry of a range has no log-prob, so the range begins one token early."""
        return Request(
            "/generate",
            {
                "input_ids": [*prompt, *output],
                "sampling_params": {"max_new_tokens": 1, "temperature": 0.0},
                "return_logprob": True,
                "logprob_start_len": len(prompt) - 1,
                "top_logprobs_num": 1,
            },
            at_root=True,
        )

    def prefilled(self, answer: Any, prompt: Sequence[int], output: Sequence[int]) -> Scored:  # noqa: ARG002
        """See ``Dialect``."""
        about = _about(answer)
        entries = (about.get("input_token_logprobs") or [])[-len(output) :]
        if [entry[1] for entry in entries] != list(output):
            raise NotThere("meta_info.input_token_logprobs of the tokens that were sent")
        return Scored(
            [number(entry[0]) for entry in entries],
            _tops((about.get("input_top_logprobs") or [])[-len(output) :], len(output)),
        )

    def render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Request | None:
        """See ``Dialect``: only how many tokens they are can be had, from the usage of an answer."""
        body: dict[str, Any] = {"model": self.model, "messages": on_the_wire(messages), "max_tokens": 1}
        return Request("/chat/completions", {**body, "tools": list(tools)} if tools else body)

    def rendered(self, answer: Any) -> list[int]:
        """See ``Dialect``."""
        raise _OnlyCounted(_usage(answer)["prompt_tokens"])

    def spell(self, ids: Sequence[int]) -> Request:
        """See ``Dialect``."""
        return Request("/detokenize", {"tokens": list(ids)}, at_root=True)

    def spelt(self, answer: Any) -> str:
        """See ``Dialect``."""
        return _text(answer, "text")


@dataclass(frozen=True)
class OpenAI:
    """Any server with OpenAI's completions that takes token ids as a prompt; llama.cpp's among them."""

    model: str
    name: str = "openai"
    prefills: bool = False

    def decode(self, prompt: Sequence[int], sampling: Sampling, salt: str = "") -> Request:  # noqa: ARG002
        """See ``Dialect``."""
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
        """See ``Dialect``: the old form, or the chat's with ``id`` in each entry, as llama.cpp has it."""
        choice = _choice(answer)
        found = choice.get("logprobs") or {}
        common: dict[str, Any] = {
            "text": choice.get("text") or "",
            "finish": choice.get("finish_reason") or "",
            **_usage(answer),
        }
        if entries := found.get("content"):
            known = all("id" in entry for entry in entries)
            tops = [(entry.get("top_logprobs") or [{}])[0].get("id") for entry in entries]
            return Decoded(
                ids=[int(entry["id"]) for entry in entries] if known else [],
                logprobs=[number(entry.get("logprob")) for entry in entries],
                top=[int(top) for top in tops if top is not None] if None not in tops else [],
                pieces=[str(entry.get("token", "")) for entry in entries],
                **common,
            )
        if tokens := found.get("tokens"):
            return Decoded(
                ids=[],
                logprobs=[number(value) for value in found.get("token_logprobs") or []],
                pieces=[str(token) for token in tokens],
                **common,
            )
        if common["text"]:
            raise NotThere("log-probs of the output")
        return Decoded([], [], **common)

    def prefill(self, prompt: Sequence[int], output: Sequence[int]) -> Request:  # noqa: ARG002
        """There is no way."""
        raise NotThere("log-probs of a prompt")

    def prefilled(self, answer: Any, prompt: Sequence[int], output: Sequence[int]) -> Scored:  # noqa: ARG002
        """There is no way."""
        raise NotThere("log-probs of a prompt")

    def render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Request | None:
        """See ``Dialect``: only how many tokens they are can be had."""
        body: dict[str, Any] = {"model": self.model, "messages": on_the_wire(messages), "max_tokens": 1}
        return Request("/chat/completions", {**body, "tools": list(tools)} if tools else body)

    def rendered(self, answer: Any) -> list[int]:
        """See ``Dialect``."""
        raise _OnlyCounted(_usage(answer)["prompt_tokens"])

    def spell(self, ids: Sequence[int]) -> Request:
        """See ``Dialect``; llama.cpp's own way."""
        return Request("/detokenize", {"tokens": list(ids)}, at_root=True)

    def spelt(self, answer: Any) -> str:
        """See ``Dialect``."""
        return _text(answer, "content")


class _OnlyCounted(NotThere):
    """A server that says how many tokens a rendered conversation has, and not which."""

    def __init__(self, count: int | None) -> None:
        super().__init__("token ids of a rendered conversation")
        self.count = count


def counted(error: NotThere) -> int | None:
    """How many tokens the server counted, where that is all it says."""
    return error.count if isinstance(error, _OnlyCounted) else None


def on_the_wire(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages as OpenAI's API wants them: a tool call's arguments are text there, and an object in templates."""
    found = []
    for message in messages:
        calls = [
            {**call, "function": {**call["function"], "arguments": _as_text(call["function"].get("arguments"))}}
            for call in message.get("tool_calls") or ()
        ]
        found.append({**message, "tool_calls": calls} if calls else dict(message))
    return found


def in_a_template(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The other way round."""
    found = []
    for message in messages:
        calls = [
            {**call, "function": {**call["function"], "arguments": _as_object(call["function"].get("arguments"))}}
            for call in message.get("tool_calls") or ()
        ]
        found.append({**message, "tool_calls": calls} if calls else dict(message))
    return found


def _as_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _as_object(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def number(value: Any) -> float:
    """A log-prob; what stands for −inf becomes it, and what is no number NaN."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    return -math.inf if value <= _FLOOR else float(value)


def _choice(answer: Any) -> Mapping[str, Any]:
    choices = answer.get("choices") if isinstance(answer, Mapping) else None
    if not choices or not isinstance(choices[0], Mapping):
        raise NotThere("choices")
    found: Mapping[str, Any] = choices[0]
    return found


def _about(answer: Any) -> Mapping[str, Any]:
    about = answer.get("meta_info") if isinstance(answer, Mapping) else None
    if not isinstance(about, Mapping):
        raise NotThere("meta_info")
    return about


def _usage(answer: Any) -> dict[str, Any]:
    usage = (answer.get("usage") if isinstance(answer, Mapping) else None) or {}
    details = usage.get("prompt_tokens_details") or {}
    return {"prompt_tokens": usage.get("prompt_tokens"), "cached": details.get("cached_tokens")}


def _token_id(token: Any) -> int:
    text = str(token)
    if not text.startswith("token_id:"):
        raise NotThere("token ids (return_tokens_as_token_ids)")
    return int(text.removeprefix("token_id:"))


def _tops(found: Any, length: int) -> list[int]:
    tops = [entry[0][1] for entry in found or [] if entry]
    return [int(top) for top in tops] if len(tops) == length else []


def _text(answer: Any, name: str) -> str:
    found = answer.get(name) if isinstance(answer, Mapping) else None
    if not isinstance(found, str):
        raise NotThere(name)
    return found


def _ids(answer: Any, name: str) -> list[int]:
    found = answer.get(name) if isinstance(answer, Mapping) else None
    if not isinstance(found, list) or not all(isinstance(token, int) for token in found):
        raise NotThere(name)
    return list(found)
