"""The questions that stage 1 asks a server, and their answers as they came.

Nothing is judged here. Every generation asks for very few tokens: the point is the protocol, and on a CPU each token
costs tens of milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.openai_api.http import Answer, Server

# No server has a model of this name; one that answers it doesn't look at the name at all.
UNKNOWN_MODEL = "drydock-no-such-model"

FEW_TOKENS = 8

ADD_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two whole numbers",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}

ANSWER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}},
    "required": ["answer"],
    "additionalProperties": False,
}

# Ids below 1000 exist in every vocabulary; what they mean doesn't matter, only that ids are taken and given back.
TOKEN_IDS = [504, 314, 253, 216]

_SAY = [{"role": "user", "content": "List 3 countries and their capitals."}]
_SUM = [{"role": "user", "content": "What is 2 + 3? Use the tool."}]


@dataclass(frozen=True)
class Probe:
    """One request.

    Args:
        name: what the answers are filed under.
        path: below the base URL, or below the root where ``at_root`` is set.
        body: for a POST; the model's name is put in where ``with_model`` is set. None means GET.
    """

    name: str
    path: str
    body: Mapping[str, Any] | None = None
    at_root: bool = False
    with_model: bool = True
    with_key: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)

    def send(self, server: Server, model: str) -> Answer:
        """Ask the server."""
        if self.body is None:
            return server.get(self.path, at_root=self.at_root, with_key=self.with_key)
        body = {"model": model, **self.body} if self.with_model and model else self.body
        return server.post(self.path, body, at_root=self.at_root, headers=self.headers)


MODELS = Probe("models", "/models")
MODELS_WITHOUT_KEY = Probe("models-without-key", "/models", with_key=False)
# Servers differ in whether the base URL needs /v1; asked only when the model list isn't where it should be.
MODELS_BELOW_V1 = Probe("models-below-v1", "/v1/models")
# Asked last, and as soon as an answer breaks off: one request too many may have ended the server.
STILL_THERE = Probe("still-there", "/models")
CHAT = Probe("chat", "/chat/completions", {"messages": _SAY, "max_tokens": FEW_TOKENS})

# What AReaL's vLLM engine sends: ids, no model name, and log-probs whose tokens are written "token:123".
BY_TOKEN_IDS = Probe(
    "completions-token-ids",
    "/completions",
    {"prompt": TOKEN_IDS, "max_tokens": 4, "logprobs": 0, "return_tokens_as_token_ids": True},
    with_model=False,
)
# What its SGLang engine sends.
GENERATE = Probe(
    "generate",
    "/generate",
    {"input_ids": TOKEN_IDS, "sampling_params": {"max_new_tokens": 2}, "return_logprob": True},
    at_root=True,
    with_model=False,
)

# Asked once a chat has been answered; in this order.
FEATURES: tuple[Probe, ...] = (
    Probe(
        "chat-stream",
        "/chat/completions",
        {"messages": _SAY, "max_tokens": FEW_TOKENS, "stream": True, "stream_options": {"include_usage": True}},
    ),
    Probe(
        "chat-logprobs",
        "/chat/completions",
        {"messages": _SAY, "max_tokens": 4, "logprobs": True, "top_logprobs": 2},
    ),
    Probe("unknown-model", "/chat/completions", {"model": UNKNOWN_MODEL, "messages": _SAY, "max_tokens": 1}),
    Probe("tools-auto", "/chat/completions", {"messages": _SUM, "max_tokens": FEW_TOKENS, "tools": [ADD_TOOL]}),
    Probe(
        "tools-required",
        "/chat/completions",
        {"messages": _SUM, "max_tokens": 64, "tools": [ADD_TOOL], "tool_choice": "required"},
    ),
    Probe(
        "json-schema",
        "/chat/completions",
        {
            "messages": [{"role": "user", "content": "What is 2 + 3?"}],
            "max_tokens": 48,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "strict": True, "schema": ANSWER_SCHEMA},
            },
        },
    ),
    Probe(
        "messages",
        "/v1/messages",
        {"messages": _SAY, "max_tokens": FEW_TOKENS},
        at_root=True,
        headers={"anthropic-version": "2023-06-01"},
    ),
    Probe(
        "messages-stream",
        "/v1/messages",
        {"messages": _SAY, "max_tokens": FEW_TOKENS, "stream": True},
        at_root=True,
        headers={"anthropic-version": "2023-06-01"},
    ),
    Probe("responses", "/responses", {"input": "Say hi.", "max_output_tokens": 16}),
    Probe("completions", "/completions", {"prompt": "The capital of France is", "max_tokens": 4}),
    BY_TOKEN_IDS,
    Probe(
        "prompt-logprobs",
        "/completions",
        {"prompt": TOKEN_IDS, "max_tokens": 1, "logprobs": 1, "prompt_logprobs": 1},
    ),
    Probe(
        "return-token-ids",
        "/chat/completions",
        {"messages": _SAY, "max_tokens": 4, "return_token_ids": True},
    ),
    GENERATE,
    # vLLM calls the text "prompt", llama.cpp "content".
    Probe("tokenize", "/tokenize", {"prompt": "hello"}, at_root=True),
    Probe("tokenize-content", "/tokenize", {"content": "hello"}, at_root=True),
    Probe("health", "/health", at_root=True),
    Probe("metrics", "/metrics", at_root=True),
)

Answers = dict[str, Answer]


def served_models(answer: Answer) -> list[str]:
    """The names in a model list; empty where it is none."""
    data = answer.body.get("data") if isinstance(answer.body, dict) else None
    if not isinstance(data, list):
        return []
    return [item["id"] for item in data if isinstance(item, dict) and isinstance(item.get("id"), str)]


def ask(
    server: Server,
    wanted_model: str,
    *,
    tell: Callable[[str], None] = lambda _name: None,
) -> tuple[str, Answers]:
    """Ask everything, as far as it makes sense.

    Args:
        server: a connection to it.
        wanted_model: the model to ask for; empty means the first that the server lists.
        tell: called with each probe's name before it is sent.

    Returns:
        The model that was asked for, and the answers by the probes' names. A probe that could not have been answered
        (nothing listens, the key is refused, no chat at all, the server went away) isn't sent and isn't there.
    """
    answers: Answers = {}

    def put(probe: Probe, model: str) -> Answer:
        tell(probe.name)
        answer = answers[probe.name] = probe.send(server, model)
        return answer

    models = put(MODELS, wanted_model)
    if models.status is None or models.status in (401, 403):
        return wanted_model, answers
    put(MODELS_WITHOUT_KEY, wanted_model)
    listed = served_models(models)
    if not listed:
        put(MODELS_BELOW_V1, wanted_model)
    model = wanted_model or (listed[0] if listed else "")
    if not put(CHAT, model).ok:
        return model, answers
    for probe in FEATURES:
        failure = put(probe, model).failure
        if failure is not None and failure.kind != "time-out" and put(STILL_THERE, model).status is None:
            return model, answers
    put(STILL_THERE, model)
    return model, answers
