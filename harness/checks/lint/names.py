"""What a name in a file stands for, and which functions run on the event loop."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from harness.checks.lint.program import Module, Program, absolute

AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef

# A function inside one of these is a world of its own: it runs when, and where, it is called.
INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)

# A decorator whose name says this may move the call off the event loop.
_MOVES = ("thread", "executor", "async", "remote", "background", "offload", "process")


@dataclass(frozen=True, eq=False)
class Class:
    """A class of the user's."""

    node: ast.ClassDef
    module: Module

    @cached_property
    def methods(self) -> dict[str, AnyFunction]:
        """Its own methods by name."""
        return {item.name: item for item in self.node.body if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))}


@dataclass(frozen=True, eq=False)
class Function:
    """A function of the user's.

    Args:
        owner: the class it is a method of.
        outer: the function it is written in.
    """

    node: AnyFunction
    module: Module
    owner: Class | None = None
    outer: Function | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return self.node.name

    @cached_property
    def own(self) -> tuple[ast.AST, ...]:
        """All nodes of its body in the order in which they stand, those of functions inside it left out."""
        return tuple(_walk(self.node.body))

    @cached_property
    def parameters(self) -> frozenset[str]:
        """The names of its arguments."""
        arguments = self.node.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        return frozenset(argument.arg for argument in named if argument is not None)

    @cached_property
    def bound(self) -> frozenset[str]:
        """The names that it binds itself; they hide what the file imports."""
        names = set(self.parameters)
        names |= {node.id for node in self.own if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        return frozenset(names)

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """Each node's parent within the function."""
        found: dict[ast.AST, ast.AST] = {}
        for node in [self.node, *self.own]:
            for child in ast.iter_child_nodes(node):
                found[child] = node
        return found

    @property
    def self_name(self) -> str | None:
        """What a method calls its object; None for functions and static methods."""
        if self.owner is None or "staticmethod" in {last_name(item) for item in self.node.decorator_list}:
            return self.outer.self_name if self.outer is not None else None
        arguments = [*self.node.args.posonlyargs, *self.node.args.args]
        return arguments[0].arg if arguments else None

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around one, innermost first."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def assigned(self, name: str) -> list[ast.expr]:
        """Every value that a local name is given by a plain assignment."""
        found: list[ast.expr] = []
        for node in self.own:
            if isinstance(node, ast.Assign) and any(_names(target, name) for target in node.targets):
                found.append(node.value)
            elif (isinstance(node, ast.AnnAssign) and node.value is not None and _names(node.target, name)) or (
                isinstance(node, ast.NamedExpr) and _names(node.target, name)
            ):
                found.append(node.value)  # type: ignore[arg-type]
        return found


def _walk(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    for node in body:
        yield node
        if not isinstance(node, INNER):
            yield from _walk(ast.iter_child_nodes(node))


def _names(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Name) and target.id == name


def last_name(node: ast.expr) -> str:
    """The last part of a possibly dotted name; of a call, that of what is called."""
    if isinstance(node, ast.Call):
        return last_name(node.func)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


@dataclass(frozen=True, eq=False)
class Names:
    """Looks names up in a program."""

    program: Program
    _tables: dict[str, dict[str, str]] = field(default_factory=dict)

    def imports(self, module: Module) -> dict[str, str]:
        """What a file's imported names stand for, wherever in it they are imported."""
        if module.name not in self._tables:
            self._tables[module.name] = dict(_imports(module))
        return self._tables[module.name]

    def dotted(self, node: ast.expr, function: Function) -> str:
        """The full name of something imported, ``time.sleep``; empty for anything else."""
        first = node
        while isinstance(first, ast.Attribute):
            first = first.value
        inside: Function | None = function
        while inside is not None and isinstance(first, ast.Name):
            if first.id in inside.bound and first.id not in _imported_in(inside):
                return ""
            inside = inside.outer
        return self.dotted_in(function.module, node)

    def dotted_in(self, module: Module, node: ast.expr) -> str:
        """The full name of something imported, for what stands at the top of a file."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        base = self.imports(module).get(node.id) if isinstance(node, ast.Name) else None
        return ".".join([base, *reversed(parts)]) if base else ""

    def builtin(self, node: ast.expr, function: Function) -> str:
        """The name of one of Python's own functions; empty where the file or function has another of that name."""
        if not isinstance(node, ast.Name) or node.id in function.bound or node.id in self.imports(function.module):
            return ""
        return "" if self.top(function.module, node.id) is not None else node.id

    def top(self, module: Module, name: str) -> Class | Function | None:
        """A class or function at the top of a file, or imported there from another of the user's."""
        for statement in _top_level(module.tree.body):
            if isinstance(statement, ast.ClassDef) and statement.name == name:
                return Class(statement, module)
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) and statement.name == name:
                return Function(statement, module)
        return self._elsewhere(self.imports(module).get(name, ""), module)

    def _elsewhere(self, dotted: str, asking: Module) -> Class | Function | None:
        module_name, _, name = dotted.rpartition(".")
        module = self.program.modules.get(module_name)
        return None if module is None or module is asking or not name else self.top(module, name)

    def mro(self, owner: Class) -> Iterator[Class]:
        """A class and those of its bases that are the user's, in the order in which methods are looked for."""
        seen: set[ast.ClassDef] = set()
        waiting = [owner]
        while waiting:
            one = waiting.pop(0)
            if one.node in seen:
                continue
            seen.add(one.node)
            yield one
            waiting += [found for base in one.node.bases if (found := self._base(base, one.module)) is not None]

    def _base(self, node: ast.expr, module: Module) -> Class | None:
        """The user's class that a class statement names as a base; ``Base[T]`` and ``module.Base`` count."""
        if isinstance(node, ast.Subscript):
            node = node.value
        if isinstance(node, ast.Name):
            found = self.top(module, node.id)
        else:
            found = self._elsewhere(self.dotted_in(module, node), module)
        return found if isinstance(found, Class) else None

    def method(self, owner: Class, name: str) -> Function | None:
        """A method of a class or of one of its bases."""
        for one in self.mro(owner):
            if name in one.methods:
                return Function(one.methods[name], one.module, one)
        return None

    def called(self, call: ast.Call, function: Function) -> Function | None:
        """The user's function that a call runs at once; None where that can't be told."""
        target = call.func
        if isinstance(target, ast.Name):
            return self._named(target.id, function)
        if not isinstance(target, ast.Attribute):
            return None
        if isinstance(target.value, ast.Call) and self.builtin(target.value.func, function) == "super":
            return self._above(target.attr, function)
        if isinstance(target.value, ast.Name):
            owner = self._class_of(target.value.id, function)
            if owner is not None:
                return self.method(owner, target.attr)
        found = self._elsewhere(self.dotted(target, function), function.module)
        return found if isinstance(found, Function) else None

    def _named(self, name: str, function: Function) -> Function | None:
        inside: Function | None = function
        while inside is not None:
            for node in inside.own:
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
                    return Function(node, function.module, None, inside)
            if name in inside.bound:
                return None
            inside = inside.outer
        found = self.top(function.module, name)
        if isinstance(found, Class):
            return self.method(found, "__init__")
        return found

    def _class_of(self, name: str, function: Function) -> Class | None:
        """The class of the object in a name: the method's own, or one that was made in this function."""
        inside: Function | None = function
        while inside is not None:
            if inside.owner is not None and name == inside.self_name:
                return self._meant(inside.owner)
            inside = inside.outer
        values = function.assigned(name)
        if len(values) == 1 and isinstance(values[0], ast.Call) and isinstance(values[0].func, ast.Name):
            found = self.top(function.module, values[0].func.id)
            return found if isinstance(found, Class) else None
        return None

    def _meant(self, owner: Class) -> Class:
        """The class of ``self`` in a method: the agent's own where it inherits the method, else that it stands in."""
        agent = self.agent_class()
        return agent if agent is not None and any(one.node is owner.node for one in self.mro(agent)) else owner

    def _above(self, name: str, function: Function) -> Function | None:
        """The method that ``super().name`` means within a method."""
        inside: Function | None = function
        while inside is not None and inside.owner is None:
            inside = inside.outer
        if inside is None or inside.owner is None:
            return None
        line = list(self.mro(self._meant(inside.owner)))
        here = [one.node for one in line].index(inside.owner.node)
        above = (Function(one.methods[name], one.module, one) for one in line[here + 1 :] if name in one.methods)
        return next(above, None)

    def agent_class(self) -> Class | None:
        """The agent's class, also where its file only imports it."""
        first, *inner = self.program.agent.class_name.split(".")
        found = self.top(self.program.main, first)
        for name in inner:
            if not isinstance(found, Class):
                return None
            nested = (item for item in found.node.body if isinstance(item, ast.ClassDef) and item.name == name)
            found = next((Class(item, found.module) for item in nested), None)
        return found if isinstance(found, Class) else None

    @cached_property
    def run(self) -> Function | None:
        """The agent's ``run``."""
        owner = self.agent_class()
        return None if owner is None else self.method(owner, "run")

    @cached_property
    def on_loop(self) -> tuple[Function, ...]:
        """``run`` and every function of the user's that runs on the event loop because ``run`` leads to it.

        A function that is only handed on (to ``asyncio.to_thread``, an executor, a thread) is not called there.
        """
        if self.run is None or not isinstance(self.run.node, ast.AsyncFunctionDef):
            return ()
        found: dict[ast.AST, Function] = {self.run.node: self.run}
        waiting = [self.run]
        while waiting:
            function = waiting.pop(0)
            for node in function.own:
                if not isinstance(node, ast.Call):
                    continue
                inner = self.called(node, function)
                if inner is not None and inner.node not in found and not _moved(inner):
                    found[inner.node] = inner
                    waiting.append(inner)
        return tuple(found.values())


def _moved(function: Function) -> bool:
    names = [last_name(decorator).lower() for decorator in function.node.decorator_list]
    return any(word in name for name in names for word in _MOVES)


def _top_level(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a file that define its names; those of `if` and `try` at its top count."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If):
            yield from _top_level([*statement.body, *statement.orelse])
        elif isinstance(statement, ast.Try):
            handled = [line for handler in statement.handlers for line in handler.body]
            yield from _top_level([*statement.body, *handled, *statement.orelse])


def _imported_in(function: Function) -> set[str]:
    statements = [node for node in function.own if isinstance(node, (ast.Import, ast.ImportFrom))]
    return {(alias.asname or alias.name).split(".")[0] for node in statements for alias in node.names}


def _imports(module: Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.split(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom):
            base = absolute(module, node)
            for alias in node.names:
                yield alias.asname or alias.name, f"{base}.{alias.name}" if base else alias.name
