"""Coroutines whose result is used without `await`: an SDK's call, or an `async def` of the user's."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.checks.lint.makers import maker
from harness.checks.lint.names import Function, Names
from harness.checks.lint.reading import CLIENTS, HTTP_CLIENTS, hit, shown
from harness.checks.lint.rule import Hit, Rule

# How far a coroutine is followed through functions that return it.
DEPTH = 3
_SDK = ("create", "parse", "retrieve")
# What httpx sends; aiohttp's are also for `async with`.
_HTTP = ("get", "post", "put", "patch", "delete", "head", "options", "request", "send")
_LIBRARY = ("asyncio.sleep", "asyncio.wait_for", "asyncio.to_thread")
_OF_COROUTINES = ("send", "throw", "close", "cr_frame", "cr_code", "cr_running", "cr_await", "__await__")
# Functions of Python's that take values; all others (`gather`, `create_task`) may well take a coroutine.
_TAKE_VALUES = ("float", "int", "bool", "len", "round", "abs", "max", "min", "sum", "sorted")


def is_coroutine(value: ast.expr, function: Function, names: Names, depth: int = DEPTH) -> bool:
    """Whether a call, or an awaited one, certainly gives a coroutine that is still to be awaited."""
    if isinstance(value, ast.Await):
        helper = names.called(value.value, function) if isinstance(value.value, ast.Call) else None
        return helper is not None and _is_async(helper) and _returns_one(helper, names, depth)
    if not isinstance(value, ast.Call):
        return False
    if names.dotted(value.func, function) in _LIBRARY:
        return True
    helper = names.called(value, function)
    if helper is not None and helper.name != "__init__":
        return _is_async(helper) or (not _is_open(helper) and _returns_one(helper, names, depth))
    if not isinstance(value.func, ast.Attribute) or "with_streaming_response" in shown(value.func):
        return False
    verb = value.func.attr
    made = maker(value.func.value, function, names) if verb in (*_SDK, *_HTTP) else ""
    if made in CLIENTS:
        return verb in _SDK and not CLIENTS[made]
    return verb in _HTTP and made.endswith(".AsyncClient") and not HTTP_CLIENTS[made]


def _is_async(helper: Function) -> bool:
    return isinstance(helper.node, ast.AsyncFunctionDef) and not _is_open(helper)


def _is_open(helper: Function) -> bool:
    """Whether a decorator or a `yield` makes something else of a function."""
    return bool(helper.node.decorator_list) or any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in helper.own)


def _returns_one(helper: Function, names: Names, depth: int) -> bool:
    """Whether whatever a function returns is a coroutine."""
    returns = [node.value for node in helper.own if isinstance(node, ast.Return)]
    return bool(
        depth and returns and all(one is not None and is_coroutine(one, helper, names, depth - 1) for one in returns)
    )


def _not_awaited(names: Names) -> Iterator[Hit]:
    for function in names.on_loop:
        for node in function.own:
            if not isinstance(node, (ast.Call, ast.Await)) or isinstance(function.parents.get(node), ast.Await):
                continue
            if is_coroutine(node, function, names) and (used := _used(node, function, names)):
                yield hit(function, node, f"{shown(node)} is a coroutine, and {used}")


def _used(node: ast.expr, function: Function, names: Names) -> str:
    """How a coroutine is used as what it would give; empty where that isn't so, or may not be."""
    parent = function.parents.get(node)
    if isinstance(parent, ast.Expr):
        return "never runs"
    name = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
    if isinstance(name, (ast.Tuple, ast.List)):
        return "is taken apart"
    if isinstance(name, ast.Name):
        return _name_used(name, function, names)
    return _as_value(node, function, names)


def _name_used(name: ast.Name, function: Function, names: Names) -> str:
    every = [node for node in ast.walk(function.node) if isinstance(node, ast.Name) and node.id == name.id]
    loads = [node for node in every if isinstance(node.ctx, ast.Load)]
    inside = set(function.own)
    if len(every) - len(loads) != 1 or any(node not in inside for node in loads):
        return ""  # it may be another value, or a function inside awaits it
    if not loads:
        return "never runs"
    used = [_as_value(node, function, names) for node in loads]
    return used[0] if all(used) else ""  # handed to anything else, it is awaited there


def _as_value(node: ast.expr, function: Function, names: Names) -> str:
    parent = function.parents.get(node)
    if isinstance(parent, ast.Attribute) and parent.attr not in _OF_COROUTINES:
        return f"has no .{parent.attr}"
    if isinstance(parent, ast.Subscript) and parent.value is node:
        return "has no items"
    if isinstance(parent, (ast.BinOp, ast.Compare)) or (
        isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)
    ):
        return f"is used as a value in {shown(parent)}"
    if isinstance(parent, (ast.If, ast.While, ast.IfExp)) and parent.test is node:
        return "is always true"
    if isinstance(parent, (ast.For, ast.AsyncFor)) and parent.iter is node:
        return "can't be iterated"
    if isinstance(parent, ast.FormattedValue):
        return "is put into a text"
    if isinstance(parent, ast.Call) and names.builtin(parent.func, function) in _TAKE_VALUES:
        return f"is used as a value in {shown(parent)}"
    if isinstance(parent, ast.Return) and names.run is not None and function.node is names.run.node:
        return "is returned as the reward"
    return ""


RULES = (
    Rule(
        "await-missing",
        "coroutines are awaited",
        "fail",
        "An async function does nothing until it is awaited: there is no answer, and no reward.",
        "put await before it",
        _not_awaited,
    ),
)
