"""Several turns with a tool: the model may ask for a calculator until it answers.

A model of 135 million parameters hardly ever calls a tool, and when it does the arguments may be nonsense. That is no
reason to fail: nonsense is told to the model as the tool's result, and an answer that isn't right is rewarded with 0.0.
"""

from __future__ import annotations

import ast
import json
import operator
import os
import re
from collections.abc import Callable
from typing import Any

from openai import AsyncOpenAI

MAX_TURNS = 4
# A tool call is some thirty tokens of JSON.
NEW_TOKENS = 48

CALCULATOR = {
    "type": "function",
    "function": {
        "name": "calculate",
        "description": "Work out an arithmetic expression, for example 17*3+4",
        "parameters": {
            "type": "object",
            "properties": {"expression": {"type": "string"}},
            "required": ["expression"],
        },
    },
}


class ToolUse:
    """Lets the model work with a calculator, and is rewarded when its last answer holds the right number."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        http_client = extra_kwargs.get("http_client")
        client = AsyncOpenAI(
            base_url=extra_kwargs.get("base_url") or os.getenv("OPENAI_BASE_URL"),
            api_key=extra_kwargs.get("api_key") or os.getenv("OPENAI_API_KEY"),
            http_client=http_client,
        )
        try:
            text = await self._converse(client, data["messages"])
        finally:
            if http_client is None:
                await client.close()
        return reward(text, str(data["answer"]))

    async def _converse(self, client: AsyncOpenAI, question: list[Any]) -> str:
        # Only ever appended to: a framework finds the turns of a run by each history beginning with the one before.
        messages: list[Any] = list(question)
        for _ in range(MAX_TURNS):
            completion = await client.chat.completions.create(
                model=os.getenv("OPENAI_MODEL", "qwen/qwen2.5-0.5b-instruct"),
                messages=messages,
                tools=[CALCULATOR],
                max_tokens=NEW_TOKENS,
                temperature=1.0,
            )
            message = completion.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return message.content or ""
            for call in message.tool_calls:
                messages.append({"role": "tool", "tool_call_id": call.id, "content": answer_call(call)})
        return ""  # still calling tools after the last turn: there is no answer


def answer_call(call: Any) -> str:
    """The tool's answer to a call, or in words what is wrong with the call."""
    if call.type != "function" or call.function.name != "calculate":
        return "error: the only tool is calculate"
    try:
        arguments = json.loads(call.function.arguments)
        return str(calculate(arguments["expression"]))
    except (ValueError, TypeError, KeyError, SyntaxError, ArithmeticError) as error:
        return f"error: {type(error).__name__}: {error}"


_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def calculate(expression: str) -> float:
    """Work out + - * / and parentheses; nothing else of Python, for a model wrote the expression."""
    if len(expression) > 100:
        raise ValueError("the expression is too long")

    def value(node: ast.expr) -> float:
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -value(node.operand)
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        raise ValueError("only numbers, + - * / and parentheses")

    return value(ast.parse(expression, mode="eval").body)


def reward(text: str, answer: str) -> float:
    """1.0 where the last number in the text is the answer, else 0.0."""
    numbers = re.findall(r"-?\d+(?:\.\d+)?", text.replace(",", ""))
    return float(bool(numbers) and float(numbers[-1]) == float(answer)) if _is_number(answer) else float(answer in text)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
