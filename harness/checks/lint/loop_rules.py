"""Calls that hold up the event loop, on which every other run of the worker waits as well."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.checks.lint.makers import maker
from harness.checks.lint.names import Function, Names
from harness.checks.lint.reading import CLIENTS, HTTP_CLIENTS, conditions, hit, mentions, shown
from harness.checks.lint.rule import Hit, Rule

# What blocks for as long as something else takes. Reading a small file doesn't count.
BLOCKING = {
    "time.sleep": "await asyncio.sleep(…)",
    "os.system": "await asyncio.create_subprocess_shell(…)",
    "os.wait": "await process.wait()",
    "os.waitpid": "await process.wait()",
    "subprocess.run": "await asyncio.create_subprocess_exec(…)",
    "subprocess.call": "await asyncio.create_subprocess_exec(…)",
    "subprocess.check_call": "await asyncio.create_subprocess_exec(…)",
    "subprocess.check_output": "await asyncio.create_subprocess_exec(…)",
    "subprocess.getoutput": "await asyncio.create_subprocess_shell(…)",
    "urllib.request.urlopen": "an asynchronous HTTP client",
    "socket.create_connection": "await asyncio.open_connection(…)",
    "input": "no input at all",
    "ray.get": "await the reference",
}
_HTTP_VERBS = ("get", "post", "put", "patch", "delete", "head", "options", "request", "stream")
_HTTP_MODULES = ("requests", "httpx", "httpx2", "urllib3")
# The parts of a synchronous SDK's or HTTP client under which its calls lie.
_SENDS = {"create", "parse", "stream", "send", "retrieve", *_HTTP_VERBS}


def blocking(call: ast.Call, function: Function, names: Names) -> str:
    """What is better than a call that blocks; empty where it doesn't, or where that can't be told."""
    dotted = names.dotted(call.func, function) or names.builtin(call.func, function)
    if dotted in BLOCKING:
        return BLOCKING[dotted]
    module, _, verb = dotted.rpartition(".")
    if module in _HTTP_MODULES and verb in _HTTP_VERBS:
        return "an asynchronous HTTP client"
    if isinstance(call.func, ast.Attribute) and call.func.attr in _SENDS:
        made = maker(call.func.value, function, names)
        if made and {**CLIENTS, **HTTP_CLIENTS}[made]:
            return "the SDK's asynchronous client" if made in CLIENTS else "an asynchronous HTTP client"
    return ""


def _blocks(names: Names) -> Iterator[Hit]:
    for function in names.on_loop:
        awaited = {node.value for node in function.own if isinstance(node, ast.Await)}
        for node in function.own:
            if not isinstance(node, ast.Call) or node in awaited:
                continue
            if (better := blocking(node, function, names)) and not _in_a_fork(node, function):
                yield hit(function, node, f"{shown(node)} blocks the event loop (instead: {better})")


def _in_a_fork(node: ast.AST, function: Function) -> bool:
    return any(mentions(test, "fork") for test in conditions(node, function))


BLOCKING_CALL = Rule(
    "blocking-call",
    "event loop isn't blocked",
    "fail",
    "While it waits, no other run in the worker goes on: hundreds of runs become one after the other.",
    "use what is asynchronous, or move it off the loop: await asyncio.to_thread(function, …)",
    _blocks,
    seen_as=("lint.blocking-call",),
)


def _waits_for_a_debugger(names: Names) -> Iterator[Hit]:
    for function in names.on_loop:
        for node in function.own:
            if not isinstance(node, ast.Call):
                continue
            called = names.dotted(node.func, function) or shown(node.func)
            if called in ("breakpoint", "builtins.breakpoint", "pdb.set_trace", "ipdb.set_trace", "debugpy.breakpoint"):
                yield hit(function, node, f"{shown(node)} is left in it")


LEFT_BREAKPOINT = Rule(
    "left-breakpoint",
    "no breakpoint is left",
    "warn",
    "The run stands there until somebody attaches, and the worker's other runs with it.",
    "take it out; or, where it is meant: make check STAGE=2, then make attach",
    _waits_for_a_debugger,
)

RULES = (BLOCKING_CALL, LEFT_BREAKPOINT)
