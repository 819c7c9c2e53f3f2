"""What ``run`` returns, as far as its source decides it.

AReaL takes a float or a dict. Whatever else comes back is a trajectory that it drops, with a line in a worker's log.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness.checks.both import NOT_KEPT
from harness.checks.lint import flow
from harness.checks.lint.names import Function, Names, last_name
from harness.checks.lint.reading import hit, shown
from harness.checks.lint.rule import Hit, Rule

# How deep a value is followed through names and helpers; beyond that it is anybody's guess.
DEPTH = 4


@dataclass(frozen=True)
class Known:
    """A value whose type the source decides.

    Args:
        kind: the last part of a rule's code, or ``float`` and ``dict`` for what is right.
        node: what decides it.
        function: where that is.
        sure: not where it is only left over when a loop or a chain of conditions never leaves.
    """

    kind: str
    node: ast.AST
    function: Function
    sure: bool = True


_BUILTINS = {"int": "int", "len": "int", "bool": "bool", "all": "bool", "any": "bool", "isinstance": "bool"}
_BUILTINS |= {"list": "list", "sorted": "list", "float": "float", "dict": "dict"}
_FLOAT32 = ("float32", "float16", "half", "single")
_TENSORS = {"torch.tensor", "torch.as_tensor", "torch.FloatTensor", "torch.zeros", "torch.ones"}
_EXITS = ("exit", "_exit", "abort")
_ARRAYS = {"numpy.array", "numpy.asarray", "numpy.zeros", "numpy.ones"}


def returned(names: Names) -> list[Known]:
    """Every value that ``run`` may return and whose type is plain, with the place that decides it."""
    run = names.run
    if run is None or _is_generator(run):
        return []
    known = [found for node in _returns(run) for found in _kinds(node.value, run, names, DEPTH, node)]
    return [*known, *_past_the_end(run, names)]


def _past_the_end(function: Function, names: Names) -> Iterator[Known]:
    """None, where a function returns something on some ways and comes to its end on others; or returns nothing."""
    if not _returns(function):
        if not _leaves_otherwise(function):
            yield Known("none", function.node, function)
    elif reached := flow.end(function, names):
        yield Known("none", function.node.body[-1], function, reached == 2)


def _returns(function: Function) -> list[ast.Return]:
    return [node for node in function.own if isinstance(node, ast.Return)]


def _is_generator(function: Function) -> bool:
    return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in function.own)


def _leaves_otherwise(function: Function) -> bool:
    """Whether a function without a return may be meant to have none: it raises, or it is a stub for subclasses."""
    body = [
        node for node in function.node.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]
    stub = not body or all(isinstance(node, ast.Pass) for node in body)
    return stub or any(isinstance(node, (ast.Raise, ast.While)) or _exits(node) for node in body)


def _exits(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and last_name(node.value) in _EXITS


def _kinds(
    value: ast.expr | None, function: Function, names: Names, depth: int, at: ast.AST | None = None
) -> Iterator[Known]:
    """What a value is, as far as that is plain; nothing where it isn't."""
    node = at if at is not None else value
    assert node is not None
    if value is None:
        yield Known("none", node, function)
    elif isinstance(value, ast.IfExp):
        yield from _kinds(value.body, function, names, depth, at)
        yield from _kinds(value.orelse, function, names, depth, at)
    elif isinstance(value, ast.Await):
        yield from _kinds(value.value, function, names, depth, at)
    elif isinstance(value, ast.Name) and depth:
        yield from _of_name(value.id, function, names, depth)
    elif isinstance(value, ast.Call):
        yield from _of_call(value, function, names, depth, node)
    elif (kind := _literal(value)) is not None:
        yield Known(kind, node, function)


def _literal(value: ast.expr) -> str | None:
    if isinstance(value, ast.Constant):
        kinds = {bool: "bool", int: "int", type(None): "none", str: "text", float: "float"}
        return kinds.get(type(value.value))
    if isinstance(value, ast.UnaryOp):
        return "bool" if isinstance(value.op, ast.Not) else _literal(value.operand)
    if isinstance(value, (ast.List, ast.ListComp, ast.Tuple)):
        return "list"
    if isinstance(value, ast.JoinedStr):
        return "text"
    if isinstance(value, (ast.Dict, ast.DictComp)):
        return "dict"
    # `a == b` of two arrays is no bool, but never a float either; identity and membership are bools for certain.
    return "bool" if isinstance(value, ast.Compare) else None


def _of_name(name: str, function: Function, names: Names, depth: int) -> Iterator[Known]:
    """What a local name holds; only where every way it gets a value is a plain assignment of a known type."""
    stores = [node for node in function.own if isinstance(node, ast.Name) and node.id == name and not _is_load(node)]
    values = function.assigned(name)
    if not values or len(values) != len(stores):
        return  # a parameter, a loop's variable, `reward += 0.5`, a tuple taken apart
    for value in values:
        found = list(_kinds(value, function, names, depth - 1))
        yield from found


def _is_load(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


def _of_call(call: ast.Call, function: Function, names: Names, depth: int, at: ast.AST) -> Iterator[Known]:
    dotted = names.dotted(call.func, function)
    builtin = names.builtin(call.func, function)
    if builtin in _BUILTINS:
        yield Known(_BUILTINS[builtin], at, function)
    elif builtin == "round" and len(call.args) == 1 and not call.keywords:
        yield Known("int", at, function)
    elif dotted.startswith("numpy.") and dotted.rpartition(".")[2] in _FLOAT32:
        yield Known("float32", at, function)
    elif dotted in _TENSORS:
        yield Known("tensor", at, function)
    elif dotted in _ARRAYS:
        yield Known("list", at, function)
    elif depth and (helper := names.called(call, function)) is not None and helper.name != "__init__":
        yield from _of_helper(helper, names, depth)


def _of_helper(helper: Function, names: Names, depth: int) -> Iterator[Known]:
    """What one of the user's own functions returns; nothing where a decorator or a generator stands between."""
    if helper.node.decorator_list or _is_generator(helper):
        return
    for node in _returns(helper):
        yield from _kinds(node.value, helper, names, depth - 1, node)
    yield from _past_the_end(helper, names)


def _finder(kind: str, words: str) -> Callable[[Names], Iterator[Hit]]:
    def find(names: Names) -> Iterator[Hit]:
        every = returned(names)
        seen: set[tuple[str, int]] = set()
        for known in every:
            line = getattr(known.node, "lineno", 0)
            place = (str(known.function.module.path), line)
            if known.kind == kind and place not in seen:
                seen.add(place)
                yield hit(known.function, known.node, _detail(known, words), None if known.sure else "warn")

    return find


def _detail(known: Known, words: str) -> str:
    if isinstance(known.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return f"{known.function.name} returns nothing"
    if isinstance(known.node, ast.stmt) and not isinstance(known.node, ast.Return):
        return f"{known.function.name} {'returns' if known.sure else 'may return'} None: it ends here without a return"
    value = known.node.value if isinstance(known.node, ast.Return) else known.node
    if isinstance(value, ast.Tuple):
        words = "a tuple"
    return f"the reward is {words}" + (f": {shown(value)}" if value is not None else "")


_FLOAT = "return float(reward)"
KINDS = (
    ("int", "an int", _FLOAT),
    ("bool", "a bool", _FLOAT),
    ("none", "None", "return a float on every path through run"),
    ("float32", "a numpy.float32, which is no Python float", _FLOAT),
    ("list", "a list", "return one float, or {completion_id: float}"),
    ("tensor", "a tensor", "return reward.item()"),
    ("text", "a text", "return a float, or {completion_id: float}"),
)

RULES = tuple(
    Rule(
        code=f"reward-{kind}",
        title="reward",
        status="fail",
        consequence=NOT_KEPT,
        mend=mend,
        find=_finder(kind, words),
        seen_as=("run.reward",),
    )
    for kind, words, mend in KINDS
)
