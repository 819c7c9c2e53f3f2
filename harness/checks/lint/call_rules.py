"""The arguments of calls to a model, where the source gives them as literals."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from harness.checks.lint import arguments
from harness.checks.lint.names import Function, Names
from harness.checks.lint.reading import MISSING, constant, hit, shown
from harness.checks.lint.rule import Hit, Rule

# The end of the dotted name of each route's method. `responses.create` stands for one thing only where a client has it.
_ROUTES = {
    ("chat", "completions", "create"): "chat",
    ("chat", "completions", "stream"): "chat",
    ("chat", "completions", "parse"): "chat",
    ("responses", "create"): "responses",
    ("messages", "create"): "messages",
}


def route(call: ast.Call) -> str:
    """The protocol of a call to a model; empty for other calls."""
    parts: list[str] = []
    node: ast.expr = call.func
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    for ending, protocol in _ROUTES.items():
        if tuple(parts[-len(ending) :]) == ending:
            return protocol
    return ""


def asked(call: ast.Call) -> dict[str, Any]:
    """The keyword arguments of a call: literals with their values, others as ``Ellipsis``."""
    found: dict[str, Any] = {}
    for one in call.keywords:
        if one.arg == "extra_body" and isinstance(one.value, ast.Dict):
            # The SDK puts these beside the others.
            for key, value in zip(one.value.keys, one.value.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    found[key.value] = _value(value)
        elif one.arg is not None:
            found[one.arg] = _value(one.value)
    return found


def _value(node: ast.expr) -> Any:
    value = constant(node)
    return ... if value is MISSING else value


def _finder(rule: Rule) -> Callable[[Names], Iterator[Hit]]:
    def find(names: Names) -> Iterator[Hit]:
        for function in names.on_loop:
            for node in function.own:
                if isinstance(node, ast.Call) and (protocol := route(node)):
                    yield from _hits(rule, protocol, node, function)

    return find


def _hits(rule: Rule, protocol: str, call: ast.Call, function: Function) -> Iterator[Hit]:
    for problem in arguments.judge(protocol, asked(call)):
        if problem.rule is rule:
            place: ast.AST = next((one for one in call.keywords if one.arg == problem.name), call)
            yield hit(function, place, f"{problem.detail} in {shown(call.func)}(…)")


# What says how long an answer may get, for each protocol; Anthropic's SDK demands it.
_LIMITS = {
    "chat": ("max_tokens", "max_completion_tokens", "max_total_tokens"),
    "responses": ("max_output_tokens", "max_tokens"),
}


def _no_limit(names: Names) -> Iterator[Hit]:
    for function in names.on_loop:
        for node in function.own:
            if not isinstance(node, ast.Call) or not (limits := _LIMITS.get(route(node))) or not node.keywords:
                continue
            said = asked(node)
            # Another than a literal `extra_body`, and `**options`, may hold it.
            hidden = any(one.arg is None for one in node.keywords) or said.get("extra_body") is ...
            if not hidden and not any(name in said for name in limits):
                yield hit(function, node, f"{shown(node.func)}(…) has no {limits[0]}")


NO_LIMIT = Rule(
    "no-token-limit",
    "answers have a limit",
    "warn",
    "AReaL's proxy then cuts each answer at 512 tokens (unless the configuration has engine_max_tokens); other servers "
    "let the model go on to the end of its context.",
    "max_tokens=…, as many as a good answer needs",
    _no_limit,
)

RULES = (*tuple(replace(rule, find=_finder(rule), seen_as=(rule.id,)) for rule in arguments.RULES), NO_LIMIT)
