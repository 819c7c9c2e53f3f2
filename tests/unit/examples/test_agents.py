"""The examples' rewards and tools, without any server."""

from __future__ import annotations

import asyncio
import importlib.util
from types import ModuleType, SimpleNamespace
from typing import Any

import httpx2
import pytest

from tests.support.fake_model import KEY, FakeModel, response
from tests.support.harness import CLONE


def example(name: str) -> Any:
    path = CLONE / "examples" / "agents" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"example_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(agent: Any, data: dict[str, Any], transport: httpx2.MockTransport) -> float:
    async def main() -> float:
        async with httpx2.AsyncClient(transport=transport) as client:
            reward = await agent.run(data, base_url="http://fake/v1", api_key=KEY, http_client=client)
            assert not client.is_closed
            assert isinstance(reward, float)
            return reward

    return asyncio.run(main())


@pytest.mark.parametrize("module", ["single_turn", "anthropic_agent"])
@pytest.mark.parametrize(
    ("text", "answer", "reward"),
    [
        ("The capital is Paris.", "Paris", 1.0),
        ("paris", "Paris", 1.0),
        ("Parisian", "Paris", 0.0),
        ("", "Paris", 0.0),
        ("It is 12.", "12", 1.0),
        ("It is 12.5", "12", 0.0),
        ("It is 112", "12", 0.0),
    ],
)
def test_a_reward_is_for_the_word_itself(module: str, text: str, answer: str, reward: float) -> None:
    assert example(module).reward(text, answer) == reward


@pytest.mark.parametrize(
    ("text", "reward"),
    [("42 + 39 = 81", 1.0), ("81.0", 1.0), ("81 is wrong, it is 82", 0.0), ("no number", 0.0), ("1,081", 0.0)],
)
def test_a_sum_is_rewarded_by_its_last_number(text: str, reward: float) -> None:
    assert example("tool_use").reward(text, "81") == reward


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("single_turn", "SingleTurn", "It is Paris."),
        ("anthropic_agent", "AnthropicAgent", "It is Paris."),
        ("tool_use", "ToolUse", "It is Paris."),
    ],
)
@pytest.mark.parametrize("right", [True, False])
def test_an_agent_rewards_what_the_model_said(name: str, kind: str, text: str, right: bool) -> None:
    model = FakeModel(text=text if right else "I don't know", ignoring={"unknown-model"})
    data = {"messages": [{"role": "user", "content": "?"}], "answer": "Paris"}
    assert run(getattr(example(name), kind)(), data, model.transport()) == float(right)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2+3", "5"),
        ("2*(3-1)", "4"),
        ("-6/4", "-1.5"),
        ("2**9", "error"),
        ("__import__('os')", "error"),
        ("1/0", "error"),
    ],
)
def test_the_calculator_takes_arithmetic_alone(expression: str, value: str) -> None:
    function = SimpleNamespace(name="calculate", arguments=f'{{"expression": "{expression}"}}')
    assert example("tool_use").answer_call(SimpleNamespace(type="function", function=function)).startswith(value)


@pytest.mark.parametrize("arguments", ['"Paris"', "{", "[]", "{}", '{"expression": 5}', "null"])
def test_a_models_nonsense_is_answered_and_not_raised(arguments: str) -> None:
    function = SimpleNamespace(name="calculate", arguments=arguments)
    said = example("tool_use").answer_call(SimpleNamespace(type="function", function=function))
    assert said.startswith("error:")


def test_the_tools_result_goes_back_to_the_model_after_all_that_was_said() -> None:
    bodies: list[list[dict[str, Any]]] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        import json

        bodies.append(json.loads(request.content)["messages"])
        call = {
            "id": "c",
            "type": "function",
            "function": {"name": "calculate", "arguments": '{"expression": "42+39"}'},
        }
        message: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [call]}
        if len(bodies) > 1:
            message = {"role": "assistant", "content": "81"}
        body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return response(200, "application/json", [json.dumps({**body, "choices": [choice]}).encode()])

    question = [{"role": "user", "content": "What is 42 + 39?"}]
    agent = example("tool_use").ToolUse()
    assert run(agent, {"messages": question, "answer": "81"}, httpx2.MockTransport(handle)) == 1.0
    assert bodies[0] == question
    assert bodies[1][: len(question)] == question
    assert [message["role"] for message in bodies[1]] == ["user", "assistant", "tool"]
    assert bodies[1][2]["content"] == "81"
