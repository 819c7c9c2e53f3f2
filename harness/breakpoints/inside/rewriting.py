"""Log points before Python 3.12: the function is compiled anew from its source with one call more in it.

``sys.settrace`` would cost every call of every function of the thread. This costs the one line: while it stands, the
functions of the file that have it run the new code, afterwards their own again. What is under way already isn't
reached; it would have to be called again.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import sys
import types
from collections.abc import Callable, Iterator

from harness.breakpoints.inside import codes

CALLED = "__drydock_log_point__"
Hit = Callable[[types.FrameType], None]


class SourceChanged(Exception):
    """The file isn't what the process has loaded."""


class Rewriting:
    """The log points of this process."""

    def __init__(self) -> None:
        self._hits: dict[int, Hit] = {}
        # New code to the function's own, for all that were ever made: closures made meanwhile keep the new one.
        self._own: dict[int, dict[types.CodeType, types.CodeType]] = {}
        self._next = 0

    def add(self, asked: str, filename: str, line: int, hit: Hit) -> tuple[int, int]:
        """Call a function with the frame each time that a line is reached; returns a handle and how many functions.

        Raises:
            SourceChanged: the file was changed after the process has loaded it.
        """
        self._next += 1
        handle = self._next
        linecache.checkcache(filename)
        source = "".join(linecache.getlines(filename))
        if not source:
            raise SourceChanged(f"{filename} can't be read in that process")
        plain, marked = _versions(source, filename, line, handle)
        setattr(builtins, CALLED, self._called)
        self._hits[handle] = hit
        self._own[handle] = {}
        count = 0
        for function in codes.functions(asked):
            new = _counterpart(function.__code__, plain, marked)
            if new is None or new.co_freevars != function.__code__.co_freevars:
                continue
            if any(codes.has_line(part, line) for part in codes.inner(function.__code__)):
                _note_pairs(new, function.__code__, self._own[handle])
                function.__code__ = new
                count += 1
        return handle, count

    def remove(self, asked: str, handle: int) -> None:
        """Give every function its own code back."""
        self._hits.pop(handle, None)
        own = self._own.pop(handle, {})
        for function in codes.functions(asked):
            before = own.get(function.__code__)
            if before is not None:
                function.__code__ = before

    def _called(self, handle: int) -> None:
        hit = self._hits.get(handle)
        if hit is not None:
            hit(sys._getframe(1))


def _note_pairs(new: types.CodeType, own: types.CodeType, into: dict[types.CodeType, types.CodeType]) -> None:
    into[new] = own
    ours = [part for part in new.co_consts if isinstance(part, types.CodeType)]
    theirs = [part for part in own.co_consts if isinstance(part, types.CodeType)]
    for one, other in zip(ours, theirs, strict=False):
        _note_pairs(one, other, into)


def _versions(source: str, filename: str, line: int, handle: int) -> tuple[types.CodeType, types.CodeType]:
    """The module as it is, and with the call in front of the statement at the line."""
    tree = ast.parse(source, filename)
    plain = compile(tree, filename, "exec", dont_inherit=True)
    call = ast.parse(f"{CALLED}({handle})").body[0]
    if not _insert(tree, line, call):
        raise SourceChanged(f"no statement begins at line {line}")
    return plain, compile(tree, filename, "exec", dont_inherit=True)


def _insert(tree: ast.Module, line: int, call: ast.stmt) -> bool:
    for block in _blocks(tree):
        for index, statement in enumerate(block):
            if statement.lineno != line:
                continue
            for node in ast.walk(call):
                ast.copy_location(node, statement)
            block.insert(index, call)
            return True
    return False


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block


def _counterpart(own: types.CodeType, plain: types.CodeType, marked: types.CodeType) -> types.CodeType | None:
    """The marked version of a function's code; None where the source no longer gives the code that runs."""
    for before, after in zip(codes.inner(plain), codes.inner(marked), strict=False):
        same_place = before.co_name == own.co_name and before.co_firstlineno == own.co_firstlineno
        if same_place and before.co_code == own.co_code:
            return after
    return None
