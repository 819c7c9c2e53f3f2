"""How an agent makes the client that it calls the model with."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from harness.checks.lint.makers import argument
from harness.checks.lint.names import Function, Names
from harness.checks.lint.reading import (
    CLIENTS,
    HTTP_CLIENTS,
    client_made,
    conditions,
    guarded,
    hit,
    keyword,
    mentions,
    shown,
)
from harness.checks.lint.rule import Hit, Rule


def _given(node: ast.expr, function: Function, depth: int = 3) -> bool:
    """Whether a value is, or falls back from, the client that the framework hands in."""
    if isinstance(node, ast.Name) and depth:
        inside: Function | None = function
        while inside is not None:
            if any(_given(value, inside, depth - 1) for value in inside.assigned(node.id)):
                return True
            inside = inside.outer
        return node.id == "http_client" and node.id in function.parameters
    return mentions(node, "http_client")


def _closes_shared(names: Names) -> Iterator[Hit]:
    for function in names.on_loop:
        for node in function.own:
            if isinstance(node, (ast.AsyncWith, ast.With)):
                yield from _entered(node, function, names)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                closing = node.func.attr in ("aclose", "close")
                if closing and not guarded(node, function) and _is_shared(node.func.value, function, names):
                    yield hit(function, node, f"{shown(node)} closes the client that all runs share")


def _entered(statement: ast.AsyncWith | ast.With, function: Function, names: Names) -> Iterator[Hit]:
    for item in statement.items:
        if _is_shared(item.context_expr, function, names):
            entered = f"{_with(statement)} {shown(item.context_expr)}"
            yield hit(function, item.context_expr, f"{entered} closes it at the end")


def _with(statement: ast.AsyncWith | ast.With) -> str:
    return "async with" if isinstance(statement, ast.AsyncWith) else "with"


def _is_shared(node: ast.expr, function: Function, names: Names, depth: int = 2) -> bool:
    """Whether a value is the shared client, or an SDK's client around it."""
    if isinstance(node, ast.Call):
        made = names.dotted(node.func, function)
        passed = keyword(node, "http_client")
        return made in CLIENTS and passed is not None and _given(passed, function)
    if isinstance(node, ast.Name) and depth:
        values = function.assigned(node.id)
        if len(values) == 1 and isinstance(values[0], ast.Call) and client_made(values[0], function, names):
            return _is_shared(values[0], function, names, depth - 1)
        if not values and node.id in function.parameters and _is_handed_shared(node.id, function, names, depth - 1):
            return True
        return _given(node, function) and not any(client_made(value, function, names) for value in values)
    return isinstance(node, ast.Subscript) and mentions(node.slice, "http_client")


def _is_handed_shared(parameter: str, function: Function, names: Names, depth: int) -> bool:
    """Whether some caller hands a function the shared client, or an SDK's client around it."""
    for caller in names.on_loop:
        for node in caller.own:
            if not isinstance(node, ast.Call) or (meant := names.called(node, caller)) is None:
                continue
            if meant.node is not function.node:
                continue
            value = argument(node, parameter, function)
            if value is not None and _is_shared(value, caller, names, depth):
                return True
    return False


def _new_client(names: Names) -> Iterator[Hit]:
    for function in names.on_loop:
        cached = any(mentions(one, "cache", "lru_cache") for one in function.node.decorator_list)
        if function.name == "__init__" or cached:
            continue
        for node in function.own:
            if not isinstance(node, ast.Call) or guarded(node, function):
                continue  # made only where none was handed in, or once
            made = client_made(node, function, names)
            if not made:
                continue
            if any(one.arg is None for one in node.keywords):
                continue  # `**options` may hold one
            if made in HTTP_CLIENTS or keyword(node, "http_client") is None:
                yield hit(function, node, f"{shown(node)} is made anew in each run")


# Anthropic's route has it with every server.
_V1 = re.compile(r"/v1(?!\w|/messages)")
_BASE = ("base_url", "OPENAI_BASE_URL", "OPENAI_API_BASE")


def _from_base(node: ast.AST, function: Function, depth: int = 3) -> bool:
    """Whether a value comes from the address that the framework gives."""
    if mentions(node, *_BASE):
        return True
    if not depth:
        return False
    used = [one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)]
    return any(_from_base(value, function, depth - 1) for name in used for value in function.assigned(name))


def _appends_v1(names: Names) -> Iterator[Hit]:
    for function in names.on_loop:
        for node in function.own:
            before, after = _joined(node)
            if before is None or not _V1.match(after) or not _from_base(before, function):
                continue
            # Where the code looks first whether it is there, it works with every server but AReaL's proxy.
            looks = mentions(before, "removesuffix", "rstrip", "rsplit", "replace", "partition") or any(
                mentions(test, "endswith", "/v1", "/v1/") for test in conditions(node, function)
            )
            yield hit(function, node, f"{shown(node)} appends /v1 to the given address", "warn" if looks else None)


def _joined(node: ast.AST) -> tuple[ast.AST | None, str]:
    """What a text is put together from: the part before a literal, and that literal."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.right, ast.Constant):
        return node.left, str(node.right.value)
    if isinstance(node, ast.JoinedStr):
        for first, second in zip(node.values, node.values[1:], strict=False):
            if isinstance(first, ast.FormattedValue) and isinstance(second, ast.Constant):
                return first.value, str(second.value)
    return None, ""


RULES = (
    Rule(
        "shared-client-closed",
        "shared http_client stays open",
        "fail",
        "All runs of a worker share this client. The next one fails with “the client has been closed”.",
        "make the client without `with`, and don't close it; close only a client of your own",
        _closes_shared,
        ("run.shared-client",),
    ),
    Rule(
        "new-client-per-run",
        "one client for all runs",
        "warn",
        "Making a client with connections of its own costs some 20 ms of CPU in each run, and a new connection each "
        "time; with hundreds of runs in one event loop that is seconds in which nothing else runs.",
        'pass http_client=extra_kwargs.get("http_client") to the SDK',
        _new_client,
    ),
    Rule(
        "v1-appended",
        "base URL is taken as it is",
        "fail",
        "The address ends in /v1 already in stages 2 and 3, and AReaL's proxy has no /v1 for OpenAI's routes: 404.",
        "give base_url to the SDK as it comes; OpenAI's SDK appends /chat/completions by itself",
        _appends_v1,
    ),
)
