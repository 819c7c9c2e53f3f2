"""What an engine would silently ignore, and the sentence that is answered instead.

A debugger must not hide that a request asked for something it did not get: a prompt_logprobs that is dropped without a
word looks like an agent's bug hours later. Only fields that change what comes back are listed; hints such as `user`,
`store` or `metadata` pass. A value that asks for nothing (null, false, the default) passes too, because SDKs and
frameworks send those.

Each row for llama.cpp was seen to be ignored by its server (xllamacpp 2026.10.11549): a 200, and an answer that did
not change. vLLM checks its requests itself, so it has no table. SGLang has none because nobody has looked yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Body = dict[str, Any]

CHAT, COMPLETIONS, MESSAGES, RESPONSES, TOKENIZE = "chat", "completions", "messages", "responses", "tokenize"
GENERATION = (CHAT, COMPLETIONS, MESSAGES, RESPONSES)

_ROUTES = {
    "/chat/completions": CHAT,
    "/completions": COMPLETIONS,
    "/completion": COMPLETIONS,
    "/messages": MESSAGES,
    "/responses": RESPONSES,
    "/tokenize": TOKENIZE,
}


@dataclass(frozen=True)
class EngineFacts:
    """What is known of a running engine and matters to refusals."""

    template_has_tools: bool = True  # whether the model's chat template can show tools to the model


@dataclass(frozen=True)
class Refusal:
    """One thing an engine ignores: where, when, and the sentence."""

    apis: tuple[str, ...]
    field: str
    asks: Callable[[Any], bool]
    sentence: str
    when: Callable[[EngineFacts], bool] | None = None  # None: whatever the facts


@dataclass(frozen=True)
class Refused:
    """A refused request."""

    field: str
    message: str


def api_of(path: str) -> str | None:
    """Which API a path belongs to, with or without the /v1 in front; None for one that generates nothing."""
    return _ROUTES.get(path.rstrip("/").removeprefix("/v1"))


def find_refusal(engine: str, path: str, body: Body, facts: EngineFacts) -> Refused | None:
    """The first thing in a request that the engine would ignore, or None."""
    api = api_of(path)
    for refusal in TABLES.get(engine, ()):
        if refusal.when is not None and not refusal.when(facts):
            continue
        if api in refusal.apis and refusal.asks(body.get(refusal.field)):
            return Refused(refusal.field, f"{refusal.field}: llama.cpp {refusal.sentence}")
    return None


def _given(value: Any) -> bool:
    # 0 is a request (prompt_logprobs=0 asks for the prompt's own log-probabilities); false, null and empty are not.
    return value is not None and value is not False and value != [] and value != {} and value != ""


def _differs_from(*defaults: Any) -> Callable[[Any], bool]:
    return lambda value: value is not None and value not in defaults


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _has_type(*types: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and value.get("type") in types


def _no_tools(facts: EngineFacts) -> bool:
    return not facts.template_has_tools


def _has_server_tool(value: Any) -> bool:
    """Whether a list of tools names one that the provider itself would run, such as a web search."""
    tools = value if isinstance(value, list) else []
    kinds = [tool.get("type") for tool in tools if isinstance(tool, dict)]
    return any(kind not in (None, "custom", "function") for kind in kinds)


def _text_format_is_constrained(value: Any) -> bool:
    text_format = value.get("format") if isinstance(value, dict) else None
    return isinstance(text_format, dict) and text_format.get("type") not in (None, "text")


_USE_VLLM = "The vllm engine can (make up ENGINE=vllm)."
_USE_SCHEMA = "Use response_format with a json_schema on /v1/chat/completions."


def _llamacpp() -> Iterator[Refusal]:
    for name in ("prompt_logprobs", "return_token_ids", "return_tokens_as_token_ids"):
        yield Refusal(GENERATION, name, _given, f"does not return these and would leave them out. {_USE_VLLM}")
    for name in ("structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar"):
        yield Refusal(GENERATION, name, _given, f"does not constrain its answer by this field. {_USE_SCHEMA}")
    for name in ("stop_token_ids", "bad_words", "allowed_token_ids", "include_stop_str_in_output", "logits_processors"):
        yield Refusal(GENERATION, name, _given, f"ignores this field. {_USE_VLLM}")
    for name in ("prompt_embeds", "truncate_prompt_tokens", "use_beam_search", "documents", "chat_template"):
        yield Refusal(GENERATION, name, _given, f"ignores this field in a request. {_USE_VLLM}")
    yield Refusal(GENERATION, "min_tokens", _differs_from(0), f"has no least number of tokens. {_USE_VLLM}")
    yield Refusal(GENERATION, "repetition_penalty", _differs_from(1), "calls it repeat_penalty; send that instead.")
    yield Refusal(GENERATION, "length_penalty", _differs_from(1), f"has no beam search. {_USE_VLLM}")
    yield Refusal(GENERATION, "skip_special_tokens", lambda value: value is False, f"always skips them. {_USE_VLLM}")
    yield Refusal(GENERATION, "best_of", _differs_from(1), "returns the first answer only; send n instead.")
    for name in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
        yield Refusal(
            GENERATION,
            name,
            lambda value: value == 0 and value is not False,
            "generates at least one token; it cannot only read the prompt.",
        )

    yield Refusal((CHAT, COMPLETIONS), "echo", _given, f"does not return the prompt. {_USE_VLLM}")
    yield Refusal((COMPLETIONS,), "suffix", _given, "does not fill in the middle here; use /infill with such a model.")
    yield Refusal(
        (COMPLETIONS,),
        "response_format",
        _differs_from({"type": "text"}),
        "does not constrain completions by it; send json_schema or grammar here, or use the chat API.",
    )
    yield Refusal((TOKENIZE,), "prompt", _given, "calls the text 'content'; with 'prompt' it returns no tokens.")

    named = 'ignores a named tool and answers as it likes; send "auto" or "required", and only the tool you mean.'
    yield Refusal((CHAT, RESPONSES), "tool_choice", _is_object, named)
    yield Refusal((MESSAGES,), "tool_choice", _has_type("tool"), named)
    forced = f"cannot force a tool call: the model's chat template does not show tools to the model. {_USE_VLLM}"
    yield Refusal((CHAT, RESPONSES), "tool_choice", lambda value: value == "required", forced, _no_tools)
    yield Refusal((MESSAGES,), "tool_choice", _has_type("any"), forced, _no_tools)
    for name in ("functions", "function_call"):
        yield Refusal((CHAT,), name, _given, "ignores the old function calling; send tools and tool_choice instead.")
    yield Refusal(
        (CHAT,), "modalities", lambda value: isinstance(value, list) and "audio" in value, "answers in text only."
    )

    yield Refusal((MESSAGES, RESPONSES), "tools", _has_server_tool, "has no tools of its own to run, only yours.")
    yield Refusal((MESSAGES,), "output_format", _given, f"does not constrain its answer by this field. {_USE_SCHEMA}")
    yield Refusal(
        (MESSAGES,),
        "output_config",
        lambda value: isinstance(value, dict) and "format" in value,
        f"does not constrain its answer by output_config.format. {_USE_SCHEMA}",
    )
    yield Refusal(
        (RESPONSES,),
        "text",
        _text_format_is_constrained,
        f"does not constrain its answer by text.format. {_USE_SCHEMA}",
    )
    for name in ("background", "conversation"):
        yield Refusal((RESPONSES,), name, _given, "keeps nothing between requests; send the whole input each time.")


TABLES: dict[str, tuple[Refusal, ...]] = {"llamacpp": tuple(_llamacpp())}
