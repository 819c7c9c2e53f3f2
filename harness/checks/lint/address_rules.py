"""Addresses and keys that stand in the source as texts."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from harness.checks.lint.names import Function, Names
from harness.checks.lint.reading import CLIENTS, constant, hit, keyword, mentions
from harness.checks.lint.rule import Hit, Rule

# Other libraries' clients of OpenAI's routes take the address and the key under these names, too.
_ADDRESS = ("base_url", "openai_api_base", "api_base")
_KEY = ("api_key", "openai_api_key")
# Whoever has one of these words in the code looks at what the framework gives.
_GIVEN_ADDRESS = ("base_url", "OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_BASE_URL")
_GIVEN_KEY = ("api_key", "OPENAI_API_KEY", "ANTHROPIC_API_KEY")


def _clients(names: Names) -> Iterator[tuple[Function, ast.Call]]:
    """The calls that make a client of a model's, in what `run` leads to and at the top of those files."""
    seen: set[str] = set()
    for function in (*names.on_loop, *_made_with(names)):
        places: list[tuple[Function, Iterable[ast.AST]]] = [(function, function.own)]
        if function.module.name not in seen:
            seen.add(function.module.name)
            top = [one for one in function.module.tree.body if isinstance(one, (ast.Assign, ast.AnnAssign))]
            places += [(Function(_nowhere(one), function.module), ast.walk(one)) for one in top]
        for where, nodes in places:
            yield from (
                (where, node) for node in nodes if isinstance(node, ast.Call) and _is_client(node, where, names)
            )


def _made_with(names: Names) -> list[Function]:
    owner = names.agent_class()
    init = names.method(owner, "__init__") if owner is not None else None
    return [init] if init is not None and names.on_loop else []


def _is_client(node: ast.Call, function: Function, names: Names) -> bool:
    dotted = names.dotted(node.func, function)
    return dotted in CLIENTS or (
        dotted.rpartition(".")[2].startswith(("ChatOpenAI", "ChatAnthropic", "AsyncOpenAI"))
        and any(keyword(node, name) is not None for name in _ADDRESS)
    )


def _nowhere(statement: ast.stmt) -> ast.FunctionDef:
    """A function without a body, for what stands at the top of a file."""
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.copy_location(ast.FunctionDef(name="", args=nothing, body=[], decorator_list=[]), statement)


def _text(value: ast.expr | None, function: Function) -> str:
    """A literal text, also through a name that is given it once; else empty."""
    if isinstance(value, ast.Name):
        values = function.assigned(value.id)
        if not values and value.id not in function.bound:
            values = [
                node.value
                for node in function.module.tree.body
                if isinstance(node, ast.Assign)
                and any(isinstance(one, ast.Name) and one.id == value.id for one in node.targets)
            ]
        value = values[0] if len(values) == 1 else None
    found = constant(value)
    return found if isinstance(found, str) else ""


def _asks(names: Names, words: tuple[str, ...]) -> bool:
    """Whether any of the code that `run` leads to reads what the framework gives."""
    everywhere = [*names.on_loop, *_made_with(names)]
    given = any(mentions(node, *words) for function in everywhere for node in function.node.body)
    return given or any(function.parameters & set(words) for function in everywhere)


def _hard_address(names: Names) -> Iterator[Hit]:
    if _asks(names, _GIVEN_ADDRESS):
        return  # a second model, as a judge, may be anywhere
    for function, call in _clients(names):
        value = next((found for name in _ADDRESS if (found := keyword(call, name)) is not None), None)
        if text := _text(value, function):
            yield hit(function, call, f"base_url is always {text}")


def _hard_key(names: Names) -> Iterator[Hit]:
    given = _asks(names, _GIVEN_KEY)
    for function, call in _clients(names):
        value = next((found for name in _KEY if (found := keyword(call, name)) is not None), None)
        text = _text(value, function)
        if text and _is_secret(text):
            yield hit(function, call, "a key stands in the source: who sees the file may use it")
        elif text and not given:
            yield hit(function, call, "api_key is always the same text")


def _is_secret(text: str) -> bool:
    """Whether a text is a real key and no stand-in such as ``EMPTY``."""
    return len(text) >= 16 and any(letter.isdigit() for letter in text) and any(letter.isalpha() for letter in text)


RULES = (
    Rule(
        "hard-coded-address",
        "calls go where they should",
        "fail",
        "What the model says there isn't recorded: nothing is trained on it, whatever the reward.",
        'give the SDK base_url=extra_kwargs.get("base_url") or os.environ["OPENAI_BASE_URL"]',
        _hard_address,
        ("run.elsewhere",),
    ),
    Rule(
        "hard-coded-key",
        "the key isn't in the source",
        "warn",
        "AReaL's proxy tells the runs apart by the key that each gets; another is refused. And a key in a file gets "
        "into repositories and reports.",
        'give the SDK api_key=extra_kwargs.get("api_key") or os.environ["OPENAI_API_KEY"]',
        _hard_key,
    ),
)
