"""Where an agent is, found without running any of its code.

Three ways to name one: ``file.py:Class``, ``module:Class`` and ``module.Class``. A wrong name is told at once, before
a server is asked or a process started; what only the running code can tell (an import that fails, a class made at run
time) is left to the child.
"""

from __future__ import annotations

import ast
import importlib.machinery
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import AgentNotFound, AgentUnreadable
from harness.places import shown

_EXAMPLES = "agents/my_agent.py:MyAgent, my_agent:MyAgent or my_package.my_agent.MyAgent"


@dataclass(frozen=True)
class RunMethod:
    """The method ``run`` as it is written.

    Args:
        line: where it starts.
        is_async: written as ``async def``.
        returns: lines of its ``return`` statements.
        takes_kwargs: has ``**anything``, or names for what AReaL passes.
    """

    line: int
    is_async: bool
    returns: tuple[int, ...]
    takes_kwargs: bool


@dataclass(frozen=True)
class AgentSource:
    """An agent's place.

    Args:
        given: the name as the user wrote it.
        module: the name under which it is imported.
        class_name: the class; a name with dots for a nested one.
        path: its file; None for a module that has none (built in, frozen, in a zip).
        search: folders that must be on ``sys.path`` for the import, in order.
        class_line: where the class starts; None where it isn't written out in that file.
        run: its ``run``; None where it is inherited or made at run time.
    """

    given: str
    module: str
    class_name: str
    path: Path | None
    search: tuple[Path, ...]
    class_line: int | None = None
    run: RunMethod | None = None

    @property
    def by_module(self) -> bool:
        """Whether it was named by its module, as a training names it, and not by a file."""
        name = self.given.strip().rpartition(":")[0] or self.given
        return "/" not in name and not name.endswith(".py")


def locate(given: str, *, folders: Sequence[Path], agent_help: str = "AGENT=") -> AgentSource:
    """Find an agent's file and class.

    Args:
        given: the agent's name in one of the three forms.
        folders: where files and modules are looked for, before ``sys.path``.
        agent_help: how the user sets the name, for the messages.

    Raises:
        AgentNotFound: no such file, module or class.
        AgentUnreadable: the file isn't Python that this interpreter can read.
    """
    name, colon, class_name = given.strip().rpartition(":")
    if not colon:
        if given.endswith(".py") or "/" in given:
            raise AgentNotFound(
                f"{given} names a file but no class",
                mend=f"{agent_help}{given}:CLASS   # {_classes_hint(given, folders)}",
            )
        name, dot, class_name = given.strip().rpartition(".")
        if not dot:
            raise AgentNotFound(f"{given!r} is no agent's name", mend=f"{agent_help}...   # for example {_EXAMPLES}")
    if not class_name or not all(part.isidentifier() for part in class_name.split(".")):
        raise AgentNotFound(f"{class_name!r} is no class name", mend=f"{agent_help}...   # for example {_EXAMPLES}")
    if name.endswith(".py") or "/" in name:
        path = _find_file(name, folders, agent_help)
        # As `python file.py` does: the file's own folder comes first.
        search = tuple(dict.fromkeys([path.parent, *folders]))
        return _with_class(AgentSource(given, path.stem, class_name, path, search), agent_help)
    everywhere = with_src(folders)
    found = find_module(name, [*map(str, everywhere), *sys.path])
    if found is None:
        raise AgentNotFound(
            f"there is no module {name!r}",
            consequence=f"Looked in {', '.join(map(shown, everywhere))} and on Python's path.",
            mend=f"{agent_help}path/to/{name.replace('.', '/')}.py:{class_name}   # a file is found without any path",
        )
    path_or_none = Path(found) if found.endswith(".py") else None
    below = [folder for folder in everywhere if found.startswith(f"{folder}/")]
    # What lies in `src` is imported from there; whatever is elsewhere has no business on its path.
    search = tuple(folders) if not below or below[-1] in folders else (below[-1], *folders)
    return _with_class(AgentSource(given, name, class_name, path_or_none, search), agent_help)


def locate_function(given: str, folders: Sequence[Path], *, name_help: str = "REWARD=") -> AgentSource:
    """Find a function, named as an agent is; ``class_name`` is the function's name.

    Raises:
        AgentNotFound: no such file, module or function.
        AgentUnreadable: the file isn't Python that this interpreter can read.
    """
    name, colon, function = given.strip().rpartition(":")
    if not colon:
        name, _, function = given.strip().rpartition(".")
    if not name or not function.isidentifier():
        raise AgentNotFound(f"{given!r} is no function's name", mend=f"{name_help}file.py:function")
    if not (name.endswith(".py") or "/" in name):
        found = find_module(name, [*map(str, folders), *sys.path])
        if found is None:
            raise AgentNotFound(f"there is no module {name!r}", mend=f"{name_help}path/to/{name}.py:{function}")
        return AgentSource(given, name, function, Path(found) if found.endswith(".py") else None, tuple(folders))
    path = _find_file(name, folders, name_help)
    try:
        tree = ast.parse(path.read_bytes(), filename=str(path))
    except (SyntaxError, ValueError) as error:
        raise AgentUnreadable(f"{path} is no Python source: {error}") from None
    functions = [node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    if function not in functions and function not in _bound_names(tree):
        raise AgentNotFound(
            f"{path} has no function {function}", mend=f"{name_help}{name}:{functions[0] if functions else 'FUNCTION'}"
        )
    search = tuple(dict.fromkeys([path.parent, *folders]))
    return AgentSource(given, path.stem, function, path, search)


def agent_classes(tree: ast.Module) -> list[str]:
    """Classes in a file that have a ``run``, in the order they are written."""
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef) and _run_of(node) is not None]


def _find_file(name: str, folders: Sequence[Path], agent_help: str) -> Path:
    wanted = Path(name).expanduser()
    for candidate in [wanted] if wanted.is_absolute() else [folder / wanted for folder in folders]:
        if candidate.is_file():
            return candidate.resolve()
    near = sorted({str(p.relative_to(folder)) for folder in folders for p in _python_files(folder, wanted.parent)})
    places = ", ".join(map(shown, folders))
    raise AgentNotFound(
        f"there is no file {name}",
        consequence=f"Looked in {places}." if not wanted.is_absolute() else "",
        mend=f"{agent_help}FILE.py:CLASS" + (f"   # there are: {', '.join(near[:8])}" if near else ""),
    )


def _python_files(folder: Path, below: Path) -> Iterable[Path]:
    place = folder / below
    return place.glob("*.py") if not below.is_absolute() and place.is_dir() else ()


def _classes_hint(name: str, folders: Sequence[Path]) -> str:
    """The classes of a file that could be meant, for a message; never fails."""
    for folder in folders:
        path = folder / Path(name).expanduser()
        if path.is_file():
            try:
                return _some(agent_classes(ast.parse(path.read_bytes()))) or "no class there has a run method"
            except (SyntaxError, ValueError, OSError):
                break
    return "the class with the run method"


def _some(names: list[str]) -> str:
    """Names for a message, not more than one can read."""
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def with_src(folders: Sequence[Path]) -> list[Path]:
    """The folders, and the `src` in each of them, where many projects keep their packages."""
    return [*folders, *(folder / "src" for folder in folders if (folder / "src").is_dir())]


def find_module(name: str, path: Sequence[str]) -> str | None:
    """Where a module comes from, without importing its parents as ``importlib.util.find_spec`` would."""
    places: list[str] | None = list(path)
    spec = None
    for part in name.split("."):
        spec = importlib.machinery.PathFinder.find_spec(part, places)
        if spec is None:
            return None
        places = list(spec.submodule_search_locations or [])
    return (spec.origin if spec else None) or "namespace package"


def _with_class(source: AgentSource, agent_help: str) -> AgentSource:
    if source.path is None:
        return source
    try:
        tree = ast.parse(source.path.read_bytes(), filename=str(source.path))
    except SyntaxError as error:
        near = (error.text or "").strip()
        raise AgentUnreadable(
            f"{source.path}, line {error.lineno}: {error.msg}" + (f": {near}" if near else ""),
            consequence="Python can't read the file, so the agent can't run.",
            mend=f"mend line {error.lineno} of {shown(source.path)}",
        ) from None
    except ValueError as error:  # null bytes
        raise AgentUnreadable(f"{source.path} is no Python source: {error}") from None
    except OSError as error:
        raise AgentUnreadable(f"{source.path} can't be read: {error.strerror}") from None
    node = _class_in(tree.body, source.class_name.split("."))
    if node is None:
        if source.class_name.split(".")[0] in _bound_names(tree):
            return source  # imported, assigned or made at run time: the child will see
        fitting = agent_classes(tree)
        raise AgentNotFound(
            f"{source.path} has no class {source.class_name}",
            consequence=f"With a run method there: {_some(fitting)}." if fitting else "No class there has a run.",
            mend=f"{agent_help}{source.given.rpartition(':')[0] or source.module}:{fitting[0] if fitting else 'CLASS'}",
        )
    run = _run_of(node)
    return AgentSource(
        source.given,
        source.module,
        source.class_name,
        source.path,
        source.search,
        node.lineno,
        None if run is None else _describe(run),
    )


def _class_in(body: Sequence[ast.stmt], names: list[str]) -> ast.ClassDef | None:
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name == names[0]:
            return node if len(names) == 1 else _class_in(node.body, names[1:])
    return None


def _bound_names(tree: ast.Module) -> set[str]:
    """Names that a module binds anywhere but by a plain class statement at its top; with a star import, all."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    nested = [
        node for statement in tree.body if not isinstance(statement, ast.ClassDef) for node in ast.walk(statement)
    ]
    names |= {node.name for node in nested if isinstance(node, ast.ClassDef)}
    if "*" in names or any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in tree.body):
        return _Everything()
    return names


class _Everything(set[str]):
    """A set in which every name is."""

    def __contains__(self, name: object) -> bool:
        return True


def _run_of(node: ast.ClassDef) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    methods = (item for item in node.body if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return next((item for item in methods if item.name == "run"), None)


def _describe(run: ast.FunctionDef | ast.AsyncFunctionDef) -> RunMethod:
    named = {argument.arg for argument in [*run.args.args, *run.args.kwonlyargs]}
    takes = run.args.kwarg is not None or {"base_url", "http_client", "api_key"} <= named
    return RunMethod(run.lineno, isinstance(run, ast.AsyncFunctionDef), tuple(_returns(run.body)), takes)


def _returns(body: Sequence[ast.AST]) -> Iterable[int]:
    """Lines of the return statements of a function itself, not of functions inside it."""
    for node in body:
        if isinstance(node, ast.Return):
            yield node.lineno
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            yield from _returns(list(ast.iter_child_nodes(node)))
