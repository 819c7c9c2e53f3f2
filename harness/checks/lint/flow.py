"""Whether a function may come to its end without a ``return``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.checks.lint.names import INNER, Function, Names, last_name

# Whether what stands behind is reached: never, perhaps (a loop or a chain of conditions may always leave), or surely in
# some run, as far as a source can say.
Reach = Literal[0, 1, 2]
_EXITS = ("exit", "_exit", "abort")
# `raise` in a function that is called is followed so far.
DEPTH = 3


def end(function: Function, names: Names, depth: int = DEPTH) -> Reach:
    """Whether a function's end is reached, where Python returns None."""
    return _Flow(function, names, depth).block(function.node.body)


@dataclass(frozen=True)
class _Flow:
    function: Function
    names: Names
    depth: int

    def block(self, body: Sequence[ast.stmt]) -> Reach:
        reached: Reach = 2
        leaving = 0
        for statement in body:
            behind = self.statement(statement)
            if isinstance(statement, ast.If) and self.block(statement.body) == 0:
                leaving += 1
                # `if a: return …` and `if not a: return …` leave nothing over; who can say what conditions mean?
                behind = min(behind, 1) if leaving > 1 else behind
            reached = min(reached, behind)
            if reached == 0:
                return 0
        return reached

    def statement(self, node: ast.stmt) -> Reach:
        if isinstance(node, (ast.Return, ast.Raise, ast.Continue, ast.Break)):
            return 0
        if isinstance(node, ast.Expr):
            return 0 if self.leaves(node.value) else 2
        if isinstance(node, ast.Assert):
            return 0 if isinstance(node.test, ast.Constant) and not node.test.value else 2
        if isinstance(node, ast.If):
            return self.condition(node)
        if isinstance(node, (ast.While, ast.For, ast.AsyncFor)):
            return self.loop(node)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            swallows = any(last_name(item.context_expr) == "suppress" for item in node.items)
            return 2 if swallows else self.block(node.body)
        if isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
            return self.attempt(node)  # type: ignore[arg-type]
        if isinstance(node, ast.Match):
            ways = [self.block(case.body) for case in node.cases]
            return max(ways) if _takes_all(node.cases[-1]) else max(*ways, 1)
        return 2

    def condition(self, node: ast.If, in_chain: bool = False) -> Reach:
        if isinstance(node.test, ast.Constant):
            return self.block(node.body if node.test.value else node.orelse)
        if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
            other = self.condition(node.orelse[0], in_chain=True)
        elif node.orelse:
            other = self.block(node.orelse)
        else:
            other = 1 if in_chain else 2
        return max(self.block(node.body), other)

    def loop(self, node: ast.While | ast.For | ast.AsyncFor) -> Reach:
        breaks = any(isinstance(one, ast.Break) for one in _own(node.body))
        if isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and node.test.value:
            return 2 if breaks else 0
        if node.orelse and not breaks:
            return self.block(node.orelse)
        leaves = any(isinstance(one, ast.Return) for statement in node.body for one in _walk(statement))
        return 1 if leaves else 2

    def attempt(self, node: ast.Try) -> Reach:
        if node.finalbody and self.block(node.finalbody) == 0:
            return 0
        return max(self.block([*node.body, *node.orelse]), *(self.block(one.body) for one in node.handlers), 0)

    def leaves(self, value: ast.expr) -> bool:
        """Whether an expression never comes back: it ends the process, or calls what always raises."""
        if isinstance(value, ast.Await):
            value = value.value
        if not isinstance(value, ast.Call):
            return False
        if last_name(value) in _EXITS:
            return True
        called = self.names.called(value, self.function) if self.depth else None
        if called is None or called.name == "__init__" or any(isinstance(one, ast.Return) for one in called.own):
            return False
        return end(called, self.names, self.depth - 1) == 0


def _takes_all(case: ast.match_case) -> bool:
    return case.guard is None and isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None


def _own(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a loop, those of loops inside it left out: a `break` there is theirs."""
    for statement in body:
        yield statement
        if isinstance(statement, (*INNER, ast.For, ast.AsyncFor, ast.While)):
            yield from _own(getattr(statement, "orelse", []))
            continue
        for name in ("body", "orelse", "finalbody"):
            yield from _own(getattr(statement, name, []))
        for handler in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
            yield from _own(handler.body)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not isinstance(node, INNER):
        for child in ast.iter_child_nodes(node):
            yield from _walk(child)
