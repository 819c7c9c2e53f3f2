"""The agent's file and what it imports from the user's own folders, parsed; none of it is run."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from harness.agent.frames import is_own
from harness.agent.source import AgentSource, find_module, with_src

# Beyond these a "workspace" is somebody's whole environment; the agent's own surroundings are read first.
MAX_FILES = 200
MAX_BYTES = 1024 * 1024

_IGNORE = re.compile(r"#\s*drydock:\s*ignore(?:\[([^\]]*)\])?", re.IGNORECASE)


@dataclass(frozen=True)
class Module:
    """One file.

    Args:
        name: under which it is imported.
        ignored: line to the codes that are ignored there; an empty set ignores all.
    """

    name: str
    path: Path
    tree: ast.Module
    lines: tuple[str, ...] = ()
    ignored: dict[int, frozenset[str]] = field(default_factory=dict)
    is_package: bool = False

    def source(self, line: int) -> str:
        """A line's text."""
        return self.lines[line - 1].strip() if 0 < line <= len(self.lines) else ""

    def ignores(self, code: str, first: int, last: int) -> bool:
        """Whether a comment on one of some lines says that a rule is to be passed over there."""
        return any(
            not codes or code in codes for line, codes in self.ignored.items() if first <= line <= max(first, last)
        )


@dataclass(frozen=True)
class Program:
    """All that was read.

    Args:
        agent: the agent.
        modules: by name; the agent's own is among them.
        main: the module of the agent's file.
    """

    agent: AgentSource
    modules: dict[str, Module]
    main: Module

    def module_at(self, file: str) -> Module | None:
        """The module of a file, if it was read."""
        return next((module for module in self.modules.values() if str(module.path) == file), None)

    def ignores_where(self, code: str, file: str, line: int) -> bool:
        """Whether a comment on the statement that a line is a part of takes a rule out there.

        What runs is at one line of a statement; the comment may stand at another.
        """
        module = self.module_at(file)
        if module is None:
            return False
        spans = [(node.lineno, _last_line(node)) for node in ast.walk(module.tree) if isinstance(node, ast.stmt)]
        inner = max((span for span in spans if span[0] <= line <= span[1]), default=None)
        return inner is not None and module.ignores(code, *inner)


def _last_line(statement: ast.stmt) -> int:
    """Where a statement ends; one that holds others ends before them."""
    body: list[ast.stmt] = getattr(statement, "body", [])
    return max(statement.lineno, body[0].lineno - 1) if body else statement.end_lineno or statement.lineno


def read(agent: AgentSource) -> Program | None:
    """Read an agent's file and, from there, all that it imports from its own folders; None where it has no file."""
    if agent.path is None:
        return None
    main = _parse(agent.module, agent.path)
    if main is None:
        return None
    modules = {agent.module: main}
    search = [str(folder) for folder in with_src(agent.search)]
    waiting = [main]
    while waiting and len(modules) < MAX_FILES:
        for name in _imported(waiting.pop(0)):
            if name in modules or len(modules) >= MAX_FILES:
                continue
            found = find_module(name, search)
            if found is None or not found.endswith(".py") or not is_own(found):
                continue
            if (module := _parse(name, Path(found))) is not None:
                modules[name] = module
                waiting.append(module)
    return Program(agent, modules, main)


def _parse(name: str, path: Path) -> Module | None:
    """One module; None for what can't be read or isn't Python. The agent's own file was read before, and told."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return None
        raw = path.read_bytes()
        tree = ast.parse(raw, filename=str(path))
        text = io.TextIOWrapper(io.BytesIO(raw), tokenize.detect_encoding(io.BytesIO(raw).readline)[0]).read()
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return Module(name, path, tree, tuple(text.splitlines()), ignores_in(text), path.name == "__init__.py")


def ignores_in(text: str) -> dict[int, frozenset[str]]:
    """Line to codes, for each comment that says ``drydock: ignore``; strings that look like it don't count."""
    if "drydock:" not in text:
        return {}
    found: dict[int, frozenset[str]] = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and (match := _IGNORE.search(token.string)):
                found[token.start[0]] = _codes(match[1])
    except (tokenize.TokenError, IndentationError):
        pass
    return found


def _codes(text: str | None) -> frozenset[str]:
    return frozenset(code.strip() for code in (text or "").split(",") if code.strip())


def _imported(module: Module) -> Iterable[str]:
    """The names of modules that may be meant by a file's import statements, wherever they stand."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            base = absolute(module, node)
            if base:
                yield base
            for alias in node.names:
                yield f"{base}.{alias.name}" if base else alias.name


def absolute(module: Module, node: ast.ImportFrom) -> str:
    """The module that a ``from … import`` names, without leading dots."""
    if not node.level:
        return node.module or ""
    package = module.name.split(".")
    if not module.is_package:
        package = package[:-1]
    package = package[: len(package) - (node.level - 1)]
    return ".".join([*package, *((node.module or "").split(".") if node.module else [])])
