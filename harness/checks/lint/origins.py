"""Which object that all runs share a name stands for: a container of a module, or the sample that `run` gets."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from harness.checks.lint.call_rules import route
from harness.checks.lint.makers import argument
from harness.checks.lint.names import Function, Names, last_name
from harness.checks.lint.program import Module

CONTAINERS = {"list", "dict", "set", "defaultdict", "deque", "Counter", "OrderedDict"}
# How far an object is followed through names and arguments.
DEPTH = 4


@dataclass(frozen=True)
class Shared:
    """One object that outlives the run.

    Args:
        kind: whose it is.
        name: the module's name for it, or the parameter's.
        module: where the name is.
        value: what the module makes; None for the sample.
        part: the first key behind it, ``"messages"`` of ``data["messages"]``; empty for all of it.
    """

    kind: Literal["module", "sample"]
    name: str
    module: str
    value: ast.expr | None = None
    part: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What tells it from others."""
        return (self.kind, self.module, self.name, self.part)

    def at(self, key: ast.expr | None) -> Shared:
        """What lies behind a key."""
        return self if self.part or not isinstance(key, ast.Constant) else replace(self, part=str(key.value))


def is_container(value: ast.expr) -> bool:
    """Whether an expression makes something that can be changed in place."""
    literal = isinstance(value, (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp))
    return literal or (isinstance(value, ast.Call) and last_name(value) in CONTAINERS)


def origin(node: ast.expr, function: Function, names: Names, depth: int = DEPTH) -> Shared | None:
    """The shared object that an expression is, or is a part of; None for copies, and where that can't be told."""
    if not depth:
        return None
    if isinstance(node, ast.Name):
        return _of_name(node.id, function, names, depth)
    if isinstance(node, ast.Subscript):
        found = origin(node.value, function, names, depth)
        # What a module keeps by a key is a run's own as long as the key is.
        keyed = found is not None and found.kind == "module" and not isinstance(node.slice, ast.Constant)
        return None if found is None or keyed or isinstance(node.slice, ast.Slice) else found.at(node.slice)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "setdefault"):
        found = origin(node.func.value, function, names, depth)
        key = node.args[0] if node.args else None
        return found.at(key) if found is not None and found.kind == "sample" else None
    if isinstance(node, ast.BoolOp):
        return origin(node.values[0], function, names, depth)
    return None


def _of_name(name: str, function: Function, names: Names, depth: int) -> Shared | None:
    declared = any(isinstance(node, ast.Global) and name in node.names for node in function.own)
    if declared:
        return _of_module(name, function.module, names)
    values = function.assigned(name)
    if name in function.parameters:
        # `data = dict(data)` and its kin make it another one.
        return None if values else _of_parameter(name, function, names, depth)
    if values:
        found = [origin(value, function, names, depth - 1) for value in values]
        return found[0] if None not in found else None
    if name in function.bound:
        return None
    if function.outer is not None:
        return _of_name(name, function.outer, names, depth)
    return _of_module(name, function.module, names)


def _of_parameter(name: str, function: Function, names: Names, depth: int) -> Shared | None:
    run = names.run
    if run is not None and function.node is run.node:
        positional = [*run.node.args.posonlyargs, *run.node.args.args]
        place = 0 if run.self_name is None else 1
        is_data = len(positional) > place and positional[place].arg == name
        return Shared("sample", name, run.module.name) if is_data else None
    for caller in names.on_loop:
        for node in caller.own:
            if not isinstance(node, ast.Call) or (meant := names.called(node, caller)) is None:
                continue
            value = argument(node, name, function) if meant.node is function.node else None
            if value is not None and (found := origin(value, caller, names, depth - 1)) is not None:
                return found
    return None


def _of_module(name: str, module: Module, names: Names) -> Shared | None:
    for statement in module.tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
        value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
        if value is not None and any(isinstance(one, ast.Name) and one.id == name for one in targets):
            return Shared("module", name, module.name, value) if is_container(value) else None
    dotted = names.imports(module).get(name, "")
    other, _, original = dotted.rpartition(".")
    elsewhere = names.program.modules.get(other)
    return _of_module(original, elsewhere, names) if elsewhere is not None and elsewhere is not module else None


def to_the_model(names: Names) -> Iterator[Shared]:
    """The shared objects that stand in the arguments of calls to a model."""
    for function in names.on_loop:
        for node in function.own:
            if isinstance(node, ast.Call) and route(node):
                for one in node.keywords:
                    yield from _within(one.value, function, names, 2)


def _within(value: ast.AST, function: Function, names: Names, depth: int) -> Iterator[Shared]:
    """The shared objects within an expression; of ``data["messages"]`` that part alone."""
    if isinstance(value, ast.expr) and (found := origin(value, function, names)) is not None:
        yield found
    elif isinstance(value, ast.Name):
        for inner in function.assigned(value.id) if depth else ():
            yield from _within(inner, function, names, depth - 1)
    else:
        for child in ast.iter_child_nodes(value):
            yield from _within(child, function, names, depth)
