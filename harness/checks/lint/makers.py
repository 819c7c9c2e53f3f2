"""Which client stands behind an expression, as far as the source decides it."""

from __future__ import annotations

import ast

from harness.checks.lint.names import Function, Names
from harness.checks.lint.reading import client_made, keyword

# How far a client is followed through arguments and the functions that make it.
DEPTH = 3


def maker(node: ast.expr, function: Function, names: Names, depth: int = DEPTH) -> str:
    """The client class behind ``client.chat.completions``; empty where the source doesn't decide it."""
    while isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id == "self"):
        node = node.value
    if isinstance(node, ast.Call):
        return client_made(node, function, names) or _returned(node, function, names, depth)
    if isinstance(node, ast.Attribute):
        return _made_in_init(node.attr, function, names)
    if not isinstance(node, ast.Name):
        return ""
    inside: Function | None = function
    while inside is not None:
        values = inside.assigned(node.id) or _entered(node.id, inside)
        if values:
            # Bound as a parameter too (`client = client or …`), it is anybody's.
            single = len(values) == 1 and node.id not in inside.parameters
            return maker(values[0], inside, names, depth - 1) if single and depth else ""
        if node.id in inside.parameters:
            return _handed(node.id, inside, names, depth - 1) if depth else ""
        if node.id in inside.bound:
            return ""
        inside = inside.outer
    return _made_at_top(node.id, function, names)


def _returned(call: ast.Call, function: Function, names: Names, depth: int) -> str:
    """What one of the user's functions makes and returns."""
    helper = names.called(call, function) if depth else None
    if helper is None or helper.name == "__init__":
        return ""
    made = {
        maker(one.value, helper, names, depth - 1) if one.value is not None else ""
        for one in helper.own
        if isinstance(one, ast.Return)
    }
    return made.pop() if len(made) == 1 else ""


def _handed(parameter: str, function: Function, names: Names, depth: int) -> str:
    """What every caller passes as a parameter."""
    made: set[str] = set()
    for caller in names.on_loop:
        for node in caller.own:
            if isinstance(node, ast.Call) and (meant := names.called(node, caller)) is not None:
                if meant.node is not function.node:
                    continue
                value = argument(node, parameter, function)
                made.add(maker(value, caller, names, depth) if value is not None else "")
    return made.pop() if len(made) == 1 else ""


def argument(call: ast.Call, parameter: str, function: Function) -> ast.expr | None:
    """What a call passes as this parameter; None where that can't be told."""
    if (named := keyword(call, parameter)) is not None:
        return named
    order = [one.arg for one in (*function.node.args.posonlyargs, *function.node.args.args)]
    # A method's first is the object before the dot.
    if function.owner is not None and function.self_name is not None and isinstance(call.func, ast.Attribute):
        order = order[1:]
    if parameter not in order or any(isinstance(one, ast.Starred) for one in call.args):
        return None
    place = order.index(parameter)
    return call.args[place] if place < len(call.args) else None


def _entered(name: str, function: Function) -> list[ast.expr]:
    items = [item for node in function.own if isinstance(node, (ast.With, ast.AsyncWith)) for item in node.items]
    return [
        item.context_expr
        for item in items
        if isinstance(item.optional_vars, ast.Name) and item.optional_vars.id == name
    ]


def _made_in_init(attribute: str, function: Function, names: Names) -> str:
    inside: Function | None = function
    while inside is not None and inside.owner is None:
        inside = inside.outer
    init = names.method(inside.owner, "__init__") if inside is not None and inside.owner is not None else None
    if init is None:
        return ""
    values = [
        node.value
        for node in init.own
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Attribute) and target.attr == attribute
    ]
    return client_made(values[0], init, names) if len(values) == 1 else ""


def _made_at_top(name: str, function: Function, names: Names) -> str:
    values = [
        node.value
        for node in function.module.tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id == name
    ]
    return client_made(values[0], function, names) if len(values) == 1 else ""
