"""For which lock a thread waits, and which locks the calls around it have taken: by the source of what it runs.

Neither the interpreter nor the kernel keeps an owner of ``threading.Lock``. But a thread that sleeps in a futex without
a time-out, at a line that takes a lock, waits for that lock; and the ``with`` blocks in which its calls stand hold
theirs. Locks are told apart by how they are written and where: ``self.lock`` of one class, ``lock`` of one module. Two
objects of one class look alike, so whoever reads this may call it likely and no more.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, TypeGuard

from harness.processes.stat import read_small

_FUTEX, _TIME_OUT = ("202", "98"), 4
_TAKES = re.compile(r"\bwith\b|\bacquire\s*\(")
_LONGEST_FILE = 2 << 20
_MOST_THREADS, _MOST_FRAMES = 64, 64


@dataclass
class Waiting:
    """A thread that waits for a lock.

    Attributes:
        thread: its name.
        wants: the lock, as ``self.lock of Metrics (train.py)``.
        line: where it waits, as ``flush (train.py:22)``.
        holds: locks that its calls have taken, with the line where they did, outermost last.
    """

    thread: str
    wants: str
    line: str
    holds: list[tuple[str, str]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """For the answer."""
        return asdict(self)


def waiting(pid: int, dump: bytes) -> list[Waiting]:
    """Threads of a process that wait for a lock; [] where none does, or its source can't be read.

    Args:
        dump: its stacks, as py-spy's JSON.
    """
    asleep = _for_ever(pid)
    if not asleep:
        return []
    try:
        shown = json.loads(dump)
    except ValueError:
        return []
    files = _Files(pid)
    found: list[Waiting] = []
    with contextlib.suppress(KeyError, TypeError, AttributeError):
        threads = [(thread, _python(thread)) for thread in shown[:_MOST_THREADS]]
        for thread, frames in threads:
            if thread.get("os_thread_id") not in asleep:
                continue
            one = _of_thread(str(thread.get("thread_name") or ""), frames, files)
            others = [other for other, _ in threads if other is not thread and other.get("os_thread_id") not in asleep]
            # Of a semaphore somebody who works may give a slot back.
            if one is not None and not (_counts(thread) and _has(one.wants, others, files)):
                found.append(one)
    return found


def _python(thread: dict[str, Any]) -> list[dict[str, Any]]:
    """Its frames from the one that takes a lock; [] where its innermost is none of Python's."""
    frames = list(thread["frames"][:_MOST_FRAMES])
    if not frames or not str(frames[0]["filename"]).endswith(".py"):
        return []
    # A semaphore, and `with condition`, are Python themselves; who waits for a condition waits for no lock.
    inner = 0
    while inner < len(frames) and os.path.basename(frames[inner]["filename"]) == "threading.py":
        inner += 1
    if inner and not any(_function(frame) in ("acquire", "__enter__") for frame in frames[:inner]):
        return []
    return [frame for frame in frames[inner:] if str(frame["filename"]).endswith(".py")]


def _counts(thread: dict[str, Any]) -> bool:
    """Whether it waits for a slot of many."""
    inside = [one for one in thread["frames"] if os.path.basename(one["filename"]) == "threading.py"]
    return any(_function(frame) == "wait" for frame in inside)


def _has(lock: str, threads: list[dict[str, Any]], files: _Files) -> bool:
    """Whether one of these threads stands in a ``with`` block of this lock."""
    file = lock[lock.rfind("(") + 1 : -1]
    return any(
        held == lock
        for thread in threads
        for frame in thread["frames"][:_MOST_FRAMES]
        if os.path.basename(frame["filename"]) == file
        for held, _ in files.held_at(frame["filename"], frame["line"])
    )


def _function(frame: dict[str, Any]) -> str:
    return str(frame["name"]).rpartition(".")[2]


def _for_ever(pid: int) -> set[int]:
    """Numbers of its threads that sleep in a futex without a time-out, as the process itself and as we know them."""
    found: set[int] = set()
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        called = (read_small(f"/proc/{pid}/task/{thread}/syscall") or b"").decode("ascii", "replace").split()
        if len(called) > _TIME_OUT and called[0] in _FUTEX and called[_TIME_OUT] == "0x0":
            found.add(int(thread))
            status = (read_small(f"/proc/{pid}/task/{thread}/status") or b"").decode("utf-8", "replace")
            inner = re.search(r"^NSpid:.*?(\d+)$", status, re.MULTILINE)
            found |= {int(inner[1])} if inner else set()
    return found


def _of_thread(name: str, frames: list[dict[str, Any]], files: _Files) -> Waiting | None:
    if not frames:
        return None
    top = frames[0]
    if not _TAKES.search(files.line(top["filename"], top["line"])):
        return None
    wanted = next(iter(files.taken_at(top["filename"], top["line"])), "")
    if not wanted:
        return None
    holds = [
        (lock, f"{frame['name']} ({os.path.basename(frame['filename'])}:{line})")
        for frame in frames
        for lock, line in files.held_at(frame["filename"], frame["line"])
    ]
    return Waiting(name, wanted, f"{top['name']} ({os.path.basename(top['filename'])}:{top['line']})", holds)


class _Files:
    """Sources as the process sees them."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._texts: dict[str, list[str]] = {}
        self._trees: dict[str, ast.Module | None] = {}

    def line(self, name: str, number: int) -> str:
        """One line; "" where it can't be read."""
        lines = self._lines(name)
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def taken_at(self, name: str, number: int) -> Iterator[str]:
        """Locks that the statement at a line takes."""
        for node, scope in self._walk(name):
            if isinstance(node, ast.With):
                for item in node.items:
                    if _spans(item.context_expr, number):
                        yield from _called(item.context_expr, scope, name)
            elif isinstance(node, ast.Call) and _acquires(node.func) and _spans(node, number):
                yield from _called(node.func.value, scope, name)

    def held_at(self, name: str, number: int) -> Iterator[tuple[str, int]]:
        """Locks of the ``with`` blocks around a line of one function, innermost first, with their lines."""
        found = []
        function = self._function_at(name, number)
        for node, scope in self._walk(name):
            if isinstance(node, ast.With) and _inside(node.body, number) and scope.function is function:
                found += [
                    (lock, node.lineno) for item in node.items for lock in _called(item.context_expr, scope, name)
                ]
        yield from reversed(found)

    def _function_at(self, name: str, number: int) -> ast.AST | None:
        around = [
            node
            for node, _ in self._walk(name)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and _spans(node, number)
        ]
        return max(around, key=lambda node: node.lineno, default=None)

    def _walk(self, name: str) -> Iterator[tuple[ast.AST, _Scope]]:
        tree = self._tree(name)
        return _walk(tree, _Scope()) if tree is not None else iter(())

    def _tree(self, name: str) -> ast.Module | None:
        if name not in self._trees:
            self._trees[name] = None
            with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of somebody else's code
                self._trees[name] = ast.parse("\n".join(self._lines(name)))
        return self._trees[name]

    def _lines(self, name: str) -> list[str]:
        if name not in self._texts:
            self._texts[name] = []
            place = name if os.path.isabs(name) else os.path.join(f"/proc/{self._pid}/cwd", name)
            inside = f"/proc/{self._pid}/root{place}" if os.path.isabs(name) else place
            with contextlib.suppress(OSError), open(inside, "rb") as file:
                content = file.read(_LONGEST_FILE + 1)
                if len(content) <= _LONGEST_FILE:
                    self._texts[name] = content.decode("utf-8", "replace").splitlines()
        return self._texts[name]


@dataclass(frozen=True)
class _Scope:
    """The class and the function in which a node stands, innermost each, and that function's own names."""

    owner: str = ""
    function: ast.AST | None = None
    local: frozenset[str] = frozenset()


def _walk(node: ast.AST, scope: _Scope) -> Iterator[tuple[ast.AST, _Scope]]:
    for child in ast.iter_child_nodes(node):
        inner = scope
        if isinstance(child, ast.ClassDef):
            inner = _Scope(child.name, scope.function, scope.local)
        elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            inner = _Scope(scope.owner, child, _names_of(child))
        yield child, scope
        yield from _walk(child, inner)


def _names_of(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> frozenset[str]:
    """Names that a function assigns or is given."""
    wide = {name for node in ast.walk(function) if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}
    given = {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}
    stored = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return frozenset((given | stored) - wide - {"self", "cls"})


def _called(lock: ast.expr, scope: _Scope, file: str) -> Iterator[str]:
    """What a lock is called everywhere in its module; nothing for what isn't just a name, or may be anything's."""
    root = lock
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name) or root.id in scope.local:
        return
    of = f" of {scope.owner}" if root.id in ("self", "cls") and scope.owner else ""
    yield f"{ast.unparse(lock)}{of} ({os.path.basename(file)})"


def _acquires(called: ast.expr) -> TypeGuard[ast.Attribute]:
    return isinstance(called, ast.Attribute) and called.attr == "acquire"


def _inside(body: list[ast.stmt], number: int) -> bool:
    return bool(body) and body[0].lineno <= number <= (body[-1].end_lineno or 0)


def _spans(node: ast.stmt | ast.expr, number: int) -> bool:
    return node.lineno <= number <= (node.end_lineno or 0)
