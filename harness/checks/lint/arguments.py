"""What AReaL's proxy does with the arguments of a call; pure, for calls in a source and calls on the wire alike.

Read in areal 1.0.4 (experimental/openai/proxy/proxy_rollout_server.py and experimental/openai/client.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.checks.lint.rule import Rule

_BOTH = {"extra_body", "metadata", "temperature", "tool_choice", "tools", "top_p", "frequency_penalty"}
# Besides those, and besides `model`, which it takes and ignores.
TAKEN: dict[str, frozenset[str]] = {
    "chat": frozenset(
        _BOTH | {"messages", "stream", "max_completion_tokens", "max_tokens", "max_total_tokens", "n", "stop", "store"}
    ),
    "responses": frozenset(_BOTH | {"include", "input", "instructions", "max_output_tokens"}),
}
# Dropped as well, and nobody's training is the worse for it; `stream` matters, see below.
HARMLESS = {
    *("model", "user", "stream_options", "service_tier", "safety_identifier", "prompt_cache_key"),
    *("prompt_cache_retention", "extra_headers", "extra_query", "timeout"),
}
# What an agent that relies on an argument will miss.
_MISSED = {
    "response_format": "the answer may not follow the schema",
    "text": "the answer may not follow the schema",
    "seed": "answers can't be repeated",
    "logprobs": "there are no log-probs in the answer",
    "top_logprobs": "there are no log-probs in the answer",
    "previous_response_id": "the model doesn't see the turns before",
    "top_k": "it samples from all tokens",
    "min_p": "it samples from all tokens",
    "parallel_tool_calls": "several tool calls may come at once",
}

N_NOT_ONE = Rule(
    "n-not-one",
    "one choice a call",
    "fail",
    "AReaL's proxy answers 500 to n other than 1 (“n != 1 is not supported yet”).",
    "ask once for each choice; a group is made of whole runs, by the framework",
)
STORE_FALSE = Rule(
    "store-false",
    "calls are recorded",
    "fail",
    "AReaL's proxy doesn't record a call with store=False: nothing is trained on it, and a run that has only such "
    "calls is dropped.",
    "leave store out",
)
DROPPED = Rule(
    "dropped-argument",
    "arguments reach the model",
    "warn",
    "AReaL's proxy drops arguments that it doesn't know, with one warning in a worker's log.",
    "do without it, or check in the agent what it was to ensure",
)
GREEDY = Rule(
    "temperature-zero",
    "answers are sampled",
    "warn",
    "All runs of a group get the same answer and the same reward: GRPO learns nothing from such a group.",
    "temperature=1.0 for rollouts; keep 0 for evaluation",
)
TOP_P = Rule(
    "top-p",
    "sampled from all tokens",
    "warn",
    "The engine renormalises its log-probs over the tokens that top-p leaves; the trainer's are over all of them, and "
    "their ratio is off from the first step.",
    "leave top_p out, or 1.0",
)

RULES = (N_NOT_ONE, STORE_FALSE, DROPPED, GREEDY, TOP_P)


@dataclass(frozen=True)
class Problem:
    """One argument that will hurt."""

    rule: Rule
    name: str
    detail: str


def judge(protocol: str, asked: Mapping[str, Any]) -> Iterator[Problem]:
    """What is wrong with a call's arguments.

    Args:
        protocol: ``chat``, ``responses`` or ``messages``.
        asked: the arguments by name; those whose value isn't known are absent from it, or are ``Ellipsis``.
    """
    if protocol == "chat":
        if _is_number(asked.get("n")) and asked["n"] != 1:
            yield Problem(N_NOT_ONE, "n", f"n={asked['n']}")
        if asked.get("store") is False:
            yield Problem(STORE_FALSE, "store", "store=False")
    if _is_number(asked.get("temperature")) and asked["temperature"] <= 0.01:
        yield Problem(GREEDY, "temperature", f"temperature={asked['temperature']}")
    if _is_number(asked.get("top_p")) and asked["top_p"] < 1:
        yield Problem(TOP_P, "top_p", f"top_p={asked['top_p']}")
    if protocol in TAKEN:
        for name, value in asked.items():
            if name not in TAKEN[protocol] and name not in HARMLESS and not _says_nothing(name, value):
                missed = f": {_MISSED[name]}" if name in _MISSED else ""
                yield Problem(DROPPED, name, f"{name} is dropped{missed}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _says_nothing(name: str, value: Any) -> bool:
    """Whether an argument asks for what there is anyway."""
    if value is None or (name in ("logprobs", "background", "store") and value is False):
        return True
    if name in ("presence_penalty",) and value == 0:
        return True
    # What frameworks send along although nobody asked for it.
    return name in ("response_format", "text") and value in (
        {"type": "text"},
        {"format": {"type": "text"}},
        {"format": {"type": "text"}, "verbosity": "medium"},
    )
