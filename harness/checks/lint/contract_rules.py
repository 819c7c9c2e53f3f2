"""Whether a framework can find the agent, make it and call it in another process."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from harness.agent.contract import PASSED
from harness.checks.lint.names import Class, Function, Names
from harness.checks.lint.origins import is_container
from harness.checks.lint.reading import hit, keyword
from harness.checks.lint.rule import Hit, Rule


def _not_async(names: Names) -> Iterator[Hit]:
    run = names.run
    if run is None or run.node.decorator_list:
        return  # a decorator may make anything of it
    if not isinstance(run.node, ast.AsyncFunctionDef):
        yield hit(run, run.node, f"{_name(run)} is no async function")
    elif any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in run.own):
        yield hit(run, run.node, f"{_name(run)} yields, which makes it an asynchronous generator")


def _signature(names: Names) -> Iterator[Hit]:
    run = names.run
    if run is None or run.node.decorator_list or run.node.args.kwarg is not None:
        return
    arguments = run.node.args
    taken = {argument.arg for argument in [*arguments.args, *arguments.kwonlyargs]}
    missing = [name for name in PASSED if name not in taken]
    if missing:
        yield hit(run, run.node, f"{_name(run)} takes no {', '.join(missing)}")
    elif len([*arguments.posonlyargs, *arguments.args]) < 2 and arguments.vararg is None:
        yield hit(run, run.node, f"{_name(run)} takes no data")


def _not_importable(names: Names) -> Iterator[Hit]:
    owner, agent = names.agent_class(), names.program.agent
    if owner is None:
        return
    path = names.program.main.path
    here = Function(_stand_in(owner), owner.module)
    if not all(part.isidentifier() for part in agent.module.split(".")):
        yield hit(here, owner.node, f"{path.name} can't be imported by name: {path.stem!r} is no Python name")
    elif agent.module == "__main__" or agent.module.split(".")[-1] == "__main__":
        yield hit(here, owner.node, f"{owner.node.name} is defined in __main__")
    elif agent.module in sys.stdlib_module_names:
        yield hit(here, owner.node, f"Python has a module {agent.module} of its own, which may be imported instead")
    elif _only_as_script(owner):
        yield hit(here, owner.node, f"{owner.node.name} is defined only where the file runs as a script")


def _in_main(names: Names) -> Iterator[Hit]:
    """The file that defines the agent also hands the class itself to a trainer, so it runs as ``__main__``."""
    owner = names.agent_class()
    if owner is None:
        return
    for statement in owner.module.tree.body:
        if not (isinstance(statement, ast.If) and _asks_for_main(statement.test)):
            continue
        for node in ast.walk(statement):
            value = keyword(node, "workflow") if isinstance(node, ast.Call) else None
            made = value.func if isinstance(value, ast.Call) else value
            if isinstance(made, ast.Name) and made.id == owner.node.name:
                here = Function(_stand_in(owner), owner.module)
                yield hit(here, node, f"{owner.node.name} is handed over from the script that defines it")


def _stand_in(owner: Class) -> ast.FunctionDef:
    """A function without a body, for hits that are in none."""
    nobody = ast.FunctionDef(name="", args=_NO_ARGUMENTS, body=[], decorator_list=[])
    return ast.copy_location(nobody, owner.node)


_NO_ARGUMENTS = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])


def _asks_for_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and any(
        isinstance(node, ast.Constant) and node.value == "__main__" for node in ast.walk(test)
    )


def _only_as_script(owner: Class) -> bool:
    return any(
        isinstance(statement, ast.If) and _asks_for_main(statement.test) and owner.node in ast.walk(statement)
        for statement in owner.module.tree.body
    )


# Methods that change a list, a dict, a set or a deque.
_CHANGES = {"append", "extend", "insert", "add", "update", "pop", "popleft", "appendleft", "clear", "remove", "discard"}


def _state_on_self(names: Names) -> Iterator[Hit]:
    owner = names.agent_class()
    if owner is None:
        return
    containers = _containers_of(owner, names)
    for function in names.on_loop:
        own = function.self_name
        if own is None or function.name == "__init__" or not _belongs(function, owner, names):
            continue
        for node in function.own:
            attribute = _kept(node, own, containers)
            if attribute and not _made_once(node, function, attribute):
                yield hit(function, node, f"run leaves something in self.{attribute}")


def _belongs(function: Function, owner: Class, names: Names) -> bool:
    while function.owner is None and function.outer is not None:
        function = function.outer
    return function.owner is not None and function.owner.node in {one.node for one in names.mro(owner)}


def _kept(node: ast.AST, own: str, containers: set[str]) -> str:
    """The attribute of self that a statement changes; empty for other statements."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        for target in node.targets:
            targets += target.elts if isinstance(target, ast.Tuple) else [target]
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)) and getattr(node, "value", None) is not None:
        targets = [node.target]
    for target in targets:
        if name := _attribute(target, own):
            return name
        if isinstance(target, ast.Subscript) and (name := _attribute(target.value, own)):
            return name
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
        name = _attribute(node.func.value, own)
        return name if name in containers else ""
    return ""


def _attribute(node: ast.expr, own: str) -> str:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == own:
        return node.attr
    return ""


def _containers_of(owner: Class, names: Names) -> set[str]:
    """Attributes that ``__init__`` or the class itself makes a list, a dict or a set."""
    found: set[str] = set()
    for one in names.mro(owner):
        init = one.methods.get("__init__")
        function = Function(init, one.module, one) if init is not None else None
        statements = list(function.own) if function is not None else []
        for node in [*statements, *one.node.body]:
            if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None or not is_container(node.value):
                continue
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                own = function.self_name if function is not None else None
                name = _attribute(target, own) if own else ""
                found.add(name or (target.id if isinstance(target, ast.Name) else ""))
    return found - {""}


def _made_once(node: ast.AST, function: Function, attribute: str) -> bool:
    """Whether a condition asks for the attribute first: what is made at first use is a cache, not a run's state."""
    for one in function.above(node):
        test = one.test if isinstance(one, (ast.If, ast.IfExp)) else None
        if test is not None and any(
            (isinstance(inner, ast.Attribute) and inner.attr == attribute)
            or (isinstance(inner, ast.Constant) and inner.value == attribute)
            for inner in ast.walk(test)
        ):
            return True
    return (
        isinstance(node, ast.Assign)
        and any(isinstance(one, ast.Attribute) and one.attr == attribute for one in ast.walk(node.value))
        and isinstance(node.value, (ast.BoolOp, ast.IfExp))
    )


def _name(run: Function) -> str:
    return f"{run.owner.node.name}.run" if run.owner is not None else "run"


_IMPORT = "A worker imports the agent by its module's name, in a process of its own; there it isn't found."
STATE_ON_SELF = Rule(
    "state-on-self",
    "no state on self",
    "warn",
    "AReaL makes an agent anew for each task and runs all runs of a group on one object at once: they overwrite "
    "each other's state, and what is left there is lost.",
    "keep a run's state in local variables, and return what is to be kept",
    _state_on_self,
    seen_as=("lint.state-on-self",),
)

RULES = (
    Rule(
        "run-not-async",
        "run is a coroutine",
        "fail",
        "AReaL refuses it with a TypeError; called directly it would block every other run in the worker.",
        "write: async def run(self, data, **extra_kwargs)",
        _not_async,
        ("agent.run-not-async",),
    ),
    Rule(
        "run-signature",
        "run takes what is passed",
        "fail",
        "AReaL's inline mode passes base_url, http_client and api_key: each run ends in a TypeError and is dropped.",
        "write: async def run(self, data, **extra_kwargs)",
        _signature,
        ("agent.run-signature",),
    ),
    Rule(
        "not-importable",
        "agent can be imported by name",
        "fail",
        _IMPORT,
        "put the class at the top of a module of its own, with a plain name, on the workers' PYTHONPATH",
        _not_importable,
    ),
    Rule(
        "defined-in-main",
        "agent isn't defined in __main__",
        "warn",
        "Run as a script, the file is the module __main__, and a worker's __main__ is another: the class isn't there.",
        'move the class to a module of its own, and pass its name: workflow="my_module.MyAgent"',
        _in_main,
    ),
    STATE_ON_SELF,
)
