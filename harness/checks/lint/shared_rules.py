"""What outlives a run and is changed by it: a module's lists and dicts, and the sample that a whole group gets."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from harness.checks.lint.names import Function, Names
from harness.checks.lint.origins import Shared, origin, to_the_model
from harness.checks.lint.reading import constant, hit, keyword, shown
from harness.checks.lint.rule import Hit, Rule

_GROWS = ("append", "extend", "insert", "appendleft")
_SHRINKS = ("pop", "popleft", "clear", "remove", "discard")
_CHANGES = (*_GROWS, *_SHRINKS, "add", "update", "setdefault", "sort", "reverse")


@dataclass(frozen=True)
class Change:
    """One statement that changes a shared object."""

    shared: Shared
    how: Literal["grows", "item", "other"]
    node: ast.AST
    function: Function


def changes(names: Names) -> Iterator[Change]:
    """Every change of a shared object on the event loop."""
    for function in names.on_loop:
        for node in function.own:
            for value, how in _changed(node):
                if (found := origin(value, function, names)) is not None:
                    yield Change(found, how, node, function)


def _changed(node: ast.AST) -> Iterator[tuple[ast.expr, Literal["grows", "item", "other"]]]:
    """The objects that a node changes in place."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
        yield node.func.value, "grows" if node.func.attr in _GROWS else "other"
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                yield target.value, "item"
    elif isinstance(node, ast.AugAssign):
        if isinstance(node.target, ast.Subscript):
            # `messages["n"] += 1` sets an item; `data["messages"] += […]` grows a list.
            grows = isinstance(node.value, (ast.List, ast.ListComp))
            yield (node.target, "grows") if grows else (node.target.value, "item")
        elif isinstance(node.target, ast.Name) and isinstance(node.value, (ast.List, ast.ListComp)):
            yield node.target, "grows"
    elif isinstance(node, ast.Delete):
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                yield target.value, "other"


def _state(names: Names) -> Iterator[Hit]:
    """A module's container that runs fill: what the model is asked with, or what only ever grows."""
    every = [one for one in changes(names) if one.shared.kind == "module" and not _is_count(one)]
    asked = {one.key for one in to_the_model(names)}
    for change in every:
        name = change.shared.name
        if change.shared.key in asked and (change.how != "item" or _has_fixed_key(change.node)):
            detail = f"runs change {name} of the module, and the model is asked with it"
            yield hit(change.function, change.node, detail, "fail")
        elif change.how == "grows" and not _is_bounded(change.shared, names):
            detail = f"each run adds to {name} of the module, and nothing takes away"
            yield hit(change.function, change.node, detail)


def _is_count(change: Change) -> bool:
    return isinstance(change.node, ast.AugAssign) and isinstance(constant(change.node.value), (int, float))


def _has_fixed_key(node: ast.AST) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return any(isinstance(one, ast.Subscript) and isinstance(one.slice, ast.Constant) for one in targets)


def _is_bounded(shared: Shared, names: Names) -> bool:
    """Whether something takes away from a module's container, or it takes only so many."""
    if isinstance(shared.value, ast.Call) and keyword(shared.value, "maxlen") is not None:
        return True
    for module in names.program.modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute) and node.attr in _SHRINKS and _is_named(node.value, shared.name):
                return True
            if isinstance(node, ast.Delete) and any(_is_named(one, shared.name) for one in node.targets):
                return True
            if isinstance(node, ast.Global) and shared.name in node.names:
                return True
            if isinstance(node, ast.Assign) and any(
                isinstance(one, ast.Subscript) and isinstance(one.slice, ast.Slice) and _is_named(one, shared.name)
                for one in node.targets
            ):
                return True
    return False


def _is_named(node: ast.expr, name: str) -> bool:
    while isinstance(node, ast.Subscript):
        node = node.value
    return (node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else "") == name


def _sample(names: Names) -> Iterator[Hit]:
    """The sample changed in place."""
    asked = {one.key for one in to_the_model(names)}
    for change in changes(names):
        if change.shared.kind == "sample":
            fails = change.how == "grows" and change.shared.key in asked
            yield hit(
                change.function, change.node, f"{_said(change.node)} changes the sample", "fail" if fails else None
            )


def _said(node: ast.AST) -> str:
    return shown(node.targets[0] if isinstance(node, ast.Assign) else node)


RULES = (
    Rule(
        "shared-state",
        "no state in the module",
        "warn",
        "All runs of a worker share a module: they see each other's turns, and what is left there stays until the "
        "worker ends.",
        "keep a run's state in local variables: make the list in run, or a copy of it",
        _state,
    ),
    Rule(
        "sample-changed",
        "the sample stays as it is",
        "warn",
        "AReaL gives the same object to all runs of a group, which run at once: each sees what the others changed.",
        'work on a copy: messages = [*data["messages"]], or copy.deepcopy(data)',
        _sample,
    ),
)
