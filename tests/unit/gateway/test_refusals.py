"""What llama.cpp would silently ignore is refused; what it honours, and what asks for nothing, passes."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from gateway.refusals import EngineFacts, Refused, find_refusal
from tests.unit.gateway.support import CHAT, FakeEngine

COMPLETIONS, MESSAGES, RESPONSES = "/v1/completions", "/v1/messages", "/v1/responses"
NAMED = {"type": "function", "function": {"name": "f"}}
WITH_TOOLS, WITHOUT_TOOLS = EngineFacts(template_has_tools=True), EngineFacts(template_has_tools=False)

REFUSED: list[tuple[str, dict[str, Any]]] = [
    (CHAT, {"prompt_logprobs": 1}),
    (CHAT, {"prompt_logprobs": 0}),
    (COMPLETIONS, {"prompt_logprobs": 1}),
    (CHAT, {"return_token_ids": True}),
    (COMPLETIONS, {"return_tokens_as_token_ids": True}),
    (COMPLETIONS, {"echo": True}),
    (COMPLETIONS, {"suffix": "end"}),
    (COMPLETIONS, {"best_of": 3}),
    (COMPLETIONS, {"response_format": {"type": "json_object"}}),
    (CHAT, {"max_tokens": 0}),
    (CHAT, {"max_completion_tokens": 0}),
    (CHAT, {"min_tokens": 4}),
    (CHAT, {"stop_token_ids": [1]}),
    (CHAT, {"repetition_penalty": 1.2}),
    (CHAT, {"structured_outputs": {"choice": ["a"]}}),
    (CHAT, {"guided_json": {"type": "object"}}),
    (CHAT, {"skip_special_tokens": False}),
    (CHAT, {"include_stop_str_in_output": True}),
    (CHAT, {"use_beam_search": True}),
    (CHAT, {"tool_choice": NAMED}),
    (CHAT, {"tool_choice": {"type": "allowed_tools", "allowed_tools": {}}}),
    (CHAT, {"functions": [{"name": "f"}]}),
    (CHAT, {"modalities": ["text", "audio"]}),
    (MESSAGES, {"tool_choice": {"type": "tool", "name": "f"}}),
    (MESSAGES, {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
    (MESSAGES, {"output_config": {"format": {"type": "json_schema"}}}),
    (RESPONSES, {"tool_choice": {"type": "function", "name": "f"}}),
    (RESPONSES, {"tools": [{"type": "web_search"}]}),
    (RESPONSES, {"text": {"format": {"type": "json_schema", "schema": {}}}}),
    (RESPONSES, {"background": True}),
    ("/completion", {"prompt_logprobs": 1}),
    ("/chat/completions", {"return_token_ids": True}),
    ("/v1/chat/completions/", {"return_token_ids": True}),
    ("/tokenize", {"prompt": "hello"}),
]

PASSED: list[tuple[str, dict[str, Any]]] = [
    (CHAT, {"prompt_logprobs": None, "return_token_ids": False, "stop_token_ids": [], "best_of": 1}),
    (CHAT, {"repetition_penalty": 1.0, "min_tokens": 0, "length_penalty": 1, "skip_special_tokens": True}),
    (CHAT, {"logprobs": True, "top_logprobs": 2, "n": 4, "seed": 1, "logit_bias": {"1": 1}, "ignore_eos": True}),
    (CHAT, {"response_format": {"type": "json_schema", "json_schema": {}}}),
    (CHAT, {"tools": [NAMED], "tool_choice": "auto", "parallel_tool_calls": True}),
    (CHAT, {"tool_choice": "required"}),
    (CHAT, {"user": "u", "store": True, "metadata": {"a": "b"}, "service_tier": "auto", "modalities": ["text"]}),
    (CHAT, {"max_tokens": 1, "stream_options": {"include_usage": True}}),
    (COMPLETIONS, {"echo": False, "suffix": None, "logprobs": 1, "response_format": {"type": "text"}}),
    (MESSAGES, {"tools": [{"name": "f", "input_schema": {}}], "tool_choice": {"type": "any"}}),
    (MESSAGES, {"tools": [{"type": "custom", "name": "f"}], "output_config": {"effort": "high"}}),
    (RESPONSES, {"text": {"format": {"type": "text"}}, "tools": [{"type": "function", "name": "f"}]}),
    ("/tokenize", {"content": "hello"}),
    ("/metrics", {"prompt_logprobs": 1}),
]


@pytest.mark.parametrize(("path", "body"), REFUSED)
def test_what_llama_cpp_ignores_is_refused(path: str, body: dict[str, Any]) -> None:
    refused = find_refusal("llamacpp", path, body, WITH_TOOLS)
    assert isinstance(refused, Refused)
    assert refused.field == next(iter(body))
    assert refused.message.startswith(f"{refused.field}: llama.cpp ")


@pytest.mark.parametrize(("path", "body"), PASSED)
def test_what_llama_cpp_honours_passes(path: str, body: dict[str, Any]) -> None:
    assert find_refusal("llamacpp", path, body, WITH_TOOLS) is None


@pytest.mark.parametrize(("path", "body"), REFUSED)
def test_vllm_judges_its_requests_itself(path: str, body: dict[str, Any]) -> None:
    assert find_refusal("vllm", path, body, WITHOUT_TOOLS) is None


@pytest.mark.parametrize(("path", "choice"), [(CHAT, "required"), (RESPONSES, "required"), (MESSAGES, {"type": "any"})])
def test_a_tool_cannot_be_forced_on_a_template_without_tools(path: str, choice: Any) -> None:
    assert find_refusal("llamacpp", path, {"tool_choice": choice}, WITHOUT_TOOLS) is not None
    assert find_refusal("llamacpp", path, {"tool_choice": "auto"}, WITHOUT_TOOLS) is None


@pytest.mark.asyncio
async def test_the_answer_is_a_400_that_names_the_field(client: httpx2.AsyncClient, engine: FakeEngine) -> None:
    response = await client.post(CHAT, json={"messages": [], "prompt_logprobs": 1})
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["param"] == "prompt_logprobs"
    assert error["type"] == "invalid_request_error"
    assert "ENGINE=vllm" in error["message"]
    assert engine.seen(CHAT) == []


@pytest.mark.asyncio
async def test_vllm_gets_what_llama_cpp_does_not(vllm_client: httpx2.AsyncClient, engine: FakeEngine) -> None:
    assert (await vllm_client.post(CHAT, json={"messages": [], "prompt_logprobs": 1})).status_code == 200
    assert engine.body()["prompt_logprobs"] == 1
