"""How `up` ends, and the short way to that end; light imports only, for it runs before everything else."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness import console, docker_engine
from harness.errors import DrydockError
from harness.stack import already, observe, samplers

NEXT = {
    "make check": "check the sample agent, or yours: AGENT=my_agent.py:MyAgent",
    "make shell": "a shell in the dev container",
    "make run CMD='python train.py'": "a training that joins this Ray cluster",
}


def said_so(clone: Path, environ: Mapping[str, str]) -> bool:
    """If everything is up and nothing has changed since the last `up`, say so; else say nothing and return False."""
    started = time.monotonic()
    record = already.find(clone, environ)
    if record is None:
        return False
    try:
        client = docker_engine.connect()
        services = observe.look(client, record.expected)
    except DrydockError:
        return False  # the full `up` says it better
    containers = [container for service in services for container in service.containers]
    if not (already.fine(services) and samplers.complete(client, record.expected.project, containers)):
        return False
    for text in record.notes:
        console.note(text)
    ending((), (), time.monotonic() - started, record.rows)
    return True


def how_it_went(changed: Sequence[str], awaited: Sequence[str], seconds: float) -> str:
    """One line on what an `up` did."""
    if changed:
        return f"up in {seconds:.1f} s ({', '.join(changed)})"
    if awaited:
        return f"up in {seconds:.1f} s (nothing was changed; waited for {', '.join(awaited)})"
    return f"everything is up already; nothing was changed ({seconds:.1f} s)"


def ending(changed: Sequence[str], awaited: Sequence[str], seconds: float, rows: list[list[str]]) -> None:
    """Print how an `up` went, where everything is, and the three commands that people type next."""
    console.ok(how_it_went(changed, awaited, seconds))
    console.line()
    console.facts(rows)
    console.line()
    for command, text in NEXT.items():
        console.mend(f"{console.as_typed(command):<32} # {text}")
