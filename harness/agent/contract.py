"""Loading an agent and holding it against the contract; runs in the child, where foreign code may do what it likes."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from typing import Any, Literal

Kind = Literal[
    "import-failed",
    "no-class",
    "not-a-class",
    "not-constructible",
    "no-run",
    "run-not-async",
    "run-signature",
]

# What AReaL's inline mode passes besides data; the names are part of the contract.
PASSED = ("base_url", "http_client", "api_key")


class Unfit(Exception):
    """The agent can't be run: what is wrong, what follows, how to mend it; ``line`` where it is known."""

    def __init__(self, kind: Kind, what: str, consequence: str = "", mend: str = "", line: int | None = None) -> None:
        super().__init__(what)
        self.kind: Kind = kind
        self.what = what
        self.consequence = consequence
        self.mend = mend
        self.line = line


def load(module_name: str, class_name: str, file: str | None) -> type:
    """Import the module and return the class.

    Args:
        module_name: the name to import under.
        class_name: possibly with dots, for a nested class.
        file: where the module must come from; another module of that name elsewhere is not taken for it.

    Raises:
        Unfit: there is no such class in it. Whatever the import itself raises passes through.
    """
    module = (
        _from_file(module_name, file) if file and _hidden(module_name, file) else importlib.import_module(module_name)
    )
    found: Any = module
    for part in class_name.split("."):
        found = getattr(found, part, None)
        if found is None:
            fitting = [name for name, value in vars(module).items() if inspect.isclass(value) and hasattr(value, "run")]
            raise Unfit(
                "no-class",
                f"{module_name} has no class {class_name}",
                f"With a run method there: {', '.join(fitting)}." if fitting else "No class there has a run method.",
            )
    if not inspect.isclass(found):
        raise Unfit(
            "not-a-class",
            f"{class_name} is {_a(type(found).__name__)}, not a class",
            "AReaL makes a new agent from the class in each worker; an object can't be sent there by name.",
            "name the class itself",
        )
    return found


def construct(agent_class: type, arguments: dict[str, Any]) -> Any:
    """Make an agent, as a framework's worker does.

    Raises:
        Unfit: its ``__init__`` needs arguments that were not given. Whatever else it raises passes through.
    """
    try:
        inspect.signature(agent_class).bind(**arguments)
    except TypeError as error:
        raise Unfit(
            "not-constructible",
            f"{agent_class.__name__}({', '.join(arguments)}) doesn't fit its __init__: {error}",
            "A framework makes the agent in each worker, with the arguments of its configuration only.",
            "give the arguments defaults, or pass them: --agent-args '{\"name\": value}'",
            _line_of(getattr(agent_class, "__init__", agent_class)),
        ) from None
    except ValueError:
        pass  # no signature to be had (a class written in C): only trying tells
    return agent_class(**arguments)


def hold_to_contract(agent: Any) -> None:
    """Check what can be checked of an agent before it runs.

    Raises:
        Unfit: there is no ``run``, it is no coroutine function, or it can't take what a framework passes.
    """
    name = type(agent).__name__
    run = getattr(agent, "run", None)
    if not callable(run):
        raise Unfit(
            "no-run",
            f"{name} has no method run",
            "A framework recognises an agent by it, and refuses or misreads a class without it.",
            "add: async def run(self, data, **extra_kwargs)",
            _line_of(type(agent)),
        )
    if not inspect.iscoroutinefunction(run):
        raise Unfit(
            "run-not-async",
            f"{name}.run is no async function",
            "AReaL refuses it with a TypeError; called directly it would block every other run in the worker.",
            "write: async def run(self, data, **extra_kwargs)",
            _line_of(run),
        )
    try:
        inspect.signature(run).bind({}, **dict.fromkeys(PASSED))
    except TypeError as error:
        raise Unfit(
            "run-signature",
            f"{name}.run{inspect.signature(run)} can't be called as run(data, {'=, '.join(PASSED)}=): {error}",
            "AReaL passes these in its inline mode; every run would end in a TypeError and its trajectory be dropped.",
            "write: async def run(self, data, **extra_kwargs)",
            _line_of(run),
        ) from None


def _hidden(module_name: str, file: str) -> bool:
    """Whether a plain import would bring another module than the file: one that Python or a package has already."""
    try:
        spec = importlib.util.find_spec(module_name)
    except (ImportError, ValueError):
        return False  # let the import itself say what is wrong
    return spec is None or spec.origin is None or not _same_file(spec.origin, file)


def _same_file(one: str, other: str) -> bool:
    import os

    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _from_file(module_name: str, file: str) -> Any:
    """Import a file under a name that something else holds already, so under its own path instead."""
    own_name = f"_drydock_agent_{module_name.replace('.', '_')}"
    spec = importlib.util.spec_from_file_location(own_name, file)
    if spec is None or spec.loader is None:
        return importlib.import_module(module_name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[own_name] = module
    spec.loader.exec_module(module)
    return module


def _line_of(thing: Any) -> int | None:
    try:
        return inspect.getsourcelines(inspect.unwrap(thing))[1]
    except (OSError, TypeError, ValueError):
        return None


def _a(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
