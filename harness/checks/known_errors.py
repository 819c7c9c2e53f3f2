"""What mends an agent's exception that many people meet; nothing for all others."""

from __future__ import annotations

import re
import sys
from typing import Any

from harness.agent.source import AgentSource
from harness.places import in_container

_COROUTINE = re.compile(r"'coroutine' object|coroutine .* was never awaited")
_TOO_LONG = re.compile(r"exceeds the available context size|maximum context length|longer than the model.s context")
_NO_MODEL = re.compile(r"model .* (?:does not exist|is not served here|not found)", re.IGNORECASE)


def mend(raised: dict[str, Any], agent: AgentSource) -> str:
    """Advice on an exception of the import or of a run; "" where none is known.

    Args:
        raised: the event, with ``type`` and ``message``.
    """
    kind, message = raised["type"].rpartition(".")[2], " ".join(raised["message"].split())
    if kind == "ModuleNotFoundError" and (missing := re.search(r"No module named '([\w.]+)'", message)):
        return _package(missing[1].partition(".")[0])
    if "attempted relative import with no known parent package" in message and not agent.by_module:
        return f"AGENT={_as_module(agent.given)}   # as a module of its package; by its file alone it has no package"
    if _COROUTINE.search(message):
        return "await the call: what an async function returns is a coroutine until it is awaited"
    if kind == "KeyError" and (keys := raised.get("sample_keys")) and _from_the_sample(raised):
        return f"use the keys that the sample has: {', '.join(keys)}   # or data that has {message}"
    return refused(message, kind == "NotFoundError")


def refused(message: str, not_found: bool) -> str:
    """Advice on what a server answers to a call; "" where none is known."""
    if _TOO_LONG.search(message):
        return "make up CONTEXT=8192   # a longer context for the stack's server; or a shorter prompt"
    if not_found and _NO_MODEL.search(message):
        return 'model=os.environ["OPENAI_MODEL"]   # the name under which the server that run() is given has its model'
    return ""


def _from_the_sample(raised: dict[str, Any]) -> bool:
    """Whether the line that raised looks the key up by name; another's dictionary may lack it as well."""
    source = raised["frames"][-1].get("source", "") if raised.get("frames") else ""
    return raised["message"].strip("'\"") in source


def _package(name: str) -> str:
    """How a package gets to where the check has just run."""
    if in_container():
        return (
            f"put the package that has {name} into WORKSPACE/requirements.txt\n"
            "make up   # installs it in every container"
        )
    return (
        f"make up   # the check ran in {sys.executable}, for no stack is up; its containers have what "
        "WORKSPACE/requirements.txt names"
    )


def _as_module(given: str) -> str:
    """``pkg/agents.py:Mine`` as ``pkg.agents:Mine``."""
    file, _, name = given.rpartition(":")
    return f"{file.removesuffix('.py').strip('./').replace('/', '.')}:{name}"
