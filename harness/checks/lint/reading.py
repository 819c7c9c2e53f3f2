"""Small questions about syntax that several rules ask."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Literal

from harness.checks.lint.names import INNER, Function, Names
from harness.checks.lint.rule import Hit

MISSING = object()

# Classes of the SDKs, and whether their calls block.
CLIENTS = {
    "openai.AsyncOpenAI": False,
    "openai.AsyncAzureOpenAI": False,
    "openai.OpenAI": True,
    "openai.AzureOpenAI": True,
    "anthropic.AsyncAnthropic": False,
    "anthropic.Anthropic": True,
}
HTTP_CLIENTS = {
    "httpx.AsyncClient": False,
    "httpx2.AsyncClient": False,
    "aiohttp.ClientSession": False,
    "httpx.Client": True,
    "httpx2.Client": True,
    "requests.Session": True,
}


def hit(function: Function, node: ast.AST, detail: str, status: Literal["fail", "warn"] | None = None) -> Hit:
    """A hit at a node of a function."""
    line, end = getattr(node, "lineno", function.node.lineno), getattr(node, "end_lineno", None) or 0
    # A definition's lines are its whole body; only its first is meant.
    end = line if isinstance(node, INNER) else end
    return Hit(detail, function.module.path, line, end, function.name, function.module.source(line), status)


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword argument that is written out."""
    return next((one.value for one in call.keywords if one.arg == name), None)


def constant(node: ast.expr | None) -> Any:
    """The value of a literal number, text, bool or None; ``MISSING`` for anything else."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        return -value if isinstance(value, (int, float)) else MISSING
    return MISSING


def client_made(node: ast.expr | None, function: Function, names: Names) -> str:
    """The full name of an SDK's or an HTTP library's client where a call makes one; else empty."""
    if not isinstance(node, ast.Call):
        return ""
    dotted = names.dotted(node.func, function)
    return dotted if dotted in CLIENTS or dotted in HTTP_CLIENTS else ""


def mentions(node: ast.AST, *words: str) -> bool:
    """Whether a name, an attribute or a text within a node is one of some words."""
    for one in ast.walk(node):
        said = one.id if isinstance(one, ast.Name) else one.attr if isinstance(one, ast.Attribute) else None
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            said = one.value
        if said in words:
            return True
    return False


def guarded(node: ast.AST, function: Function) -> bool:
    """Whether a node stands under a condition of any kind within its function."""
    return any(isinstance(one, (ast.If, ast.IfExp, ast.BoolOp, ast.Match)) for one in function.above(node))


def conditions(node: ast.AST, function: Function) -> Iterator[ast.expr]:
    """The conditions under which a node is reached, innermost first."""
    for one in function.above(node):
        if isinstance(one, (ast.If, ast.IfExp, ast.While)):
            yield one.test


def shown(node: ast.AST) -> str:
    """A node as source, on one line and not longer than a line."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 80 else f"{text[:77]}…"
