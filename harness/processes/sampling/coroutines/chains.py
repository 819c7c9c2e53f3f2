"""Follows each task of asyncio along its coroutines to what it waits for."""

from __future__ import annotations

import time
from typing import Any

from harness.processes.sampling.coroutines.loops import loop
from harness.processes.sampling.coroutines.objects import WRAPPED, Objects, Place
from harness.processes.sampling.coroutines.peek import Peek, Unreadable
from harness.processes.sampling.reach import Memory

_MOST_TASKS, _MOST_FRAMES, _SECONDS = 20_000, 200, 10.0
_RESUMABLE = {"coroutine", "generator", "async_generator"}
# What passes on what another awaits: `await` on an old coroutine, on a step of an asynchronous generator.
_WRAPPERS = {"coroutine_wrapper", "async_generator_asend", "async_generator_athrow", "anext_awaitable"}
# The state of a generator: 1 and more are ended.
_ENDED = 1
# At the end of a task's own part, behind each other: what it waits for, its coroutine, its name, its context.
_FIELDS = 4


def chains(pid: int, version: tuple[int, int]) -> dict[str, Any]:
    """Each unfinished task, and what could wake up their loops.

    ``{"pid": …, "tasks": [{"task": name, "stack": [{name, file, line}, outermost first], "waiting_on": type}, …],
    "loops": […]}``, loops as in ``loops.loop``, and ``null`` for one that can't be read.

    Args:
        version: the interpreter's, major and minor.

    Raises:
        Unreadable: there is no interpreter of a known version, or asyncio's tasks aren't found.
    """
    until = time.monotonic() + _SECONDS
    with Memory(pid) as memory:
        peek = Peek(memory)
        objects = Objects(peek, pid, version)
        module = objects.modules().get("asyncio.tasks")
        if module is None:
            return {"pid": pid, "tasks": [], "loops": []}
        found = []
        loops: dict[int, None] = {}
        for task in _tasks(objects, module):
            if time.monotonic() > until:
                raise Unreadable(f"it has more tasks than can be read in {_SECONDS:g} s")
            try:
                chain = _chain(objects, task)
            except Unreadable:
                continue  # it goes on meanwhile, and this one has ended
            if chain is not None:
                found.append(chain)
                loops[peek.word(task + WRAPPED)] = None
        return {"pid": pid, "tasks": found, "loops": [loop(objects, address) for address in loops]}


def _tasks(objects: Objects, module: int) -> list[int]:
    """Addresses of tasks: Python 3.12 keeps those of C and of Python apart, and eager ones in a plain set."""
    names = objects.names_of(module)
    found: dict[int, None] = {}
    for name in ("_all_tasks", "_scheduled_tasks", "_eager_tasks"):
        address = names.get(name)
        if address is None:
            continue
        members = objects.members(address) if objects.type_name(address) == "set" else objects.weak_members(address)
        for member in members:
            found[member] = None
            if len(found) >= _MOST_TASKS:
                return list(found)
    return list(found)


def _chain(objects: Objects, task: int) -> dict[str, Any] | None:
    """One task; None if it has ended or is none."""
    fields = _own_part(objects, task)
    if fields is None:
        return None
    future, coroutine, name = fields
    stack: list[Place] = []
    waiting_on = ""
    awaited = coroutine
    while awaited and len(stack) < _MOST_FRAMES:
        kind = objects.type_name(awaited)
        if kind in _WRAPPERS:
            awaited = objects.peek.word(awaited + WRAPPED)
        elif kind in _RESUMABLE:
            step = _step(objects, awaited)
            if step is None:
                break
            stack.append(step[0])
            awaited = step[1]
        else:
            waiting_on = kind
            break
    if not stack:
        return None
    if future and objects.type_name(future) != "NoneType":
        waiting_on = objects.type_name(future).rpartition(".")[2]
    return {"task": name, "stack": stack, "waiting_on": waiting_on}


def _own_part(objects: Objects, task: int) -> tuple[int, int, str] | None:
    """What it waits for, its coroutine, its name: found by its context, the last of the object's."""
    words = objects.peek.words(task, min(64, max(8, objects.size(task) // 8)))
    for place in range(len(words) - 1, _FIELDS + 1, -1):
        try:
            if not words[place] or not objects.type_name(words[place]).endswith("Context"):
                continue
            future, coroutine, name = words[place - 3 : place]
            if objects.type_name(coroutine) in _RESUMABLE:
                return future, coroutine, _name(objects, name)
        except Unreadable:
            continue
    return None


def _name(objects: Objects, address: int) -> str:
    """A task's name; a number until somebody has asked for it, from Python 3.12 on."""
    if objects.type_name(address) == "int":
        return f"Task-{objects.peek.number(address + 24)}"
    return objects.text(address)


def _step(objects: Objects, generator: int) -> tuple[Place, int] | None:
    """Where a coroutine or generator stands, and what it awaits (0: nothing); None if it has ended."""
    peek, layout = objects.peek, objects.layout
    if layout.state is None:
        frame = peek.word(generator + layout.frame)
        if not frame:
            return None
        depth, stack = peek.number(frame + layout.depth), peek.word(frame + layout.stack)
        code = peek.word(frame + layout.frame_code)
        instruction = 2 * max(0, peek.number(frame + layout.instruction))
    else:
        if peek.number(generator + layout.state, 1) >= _ENDED:
            return None
        frame = generator + layout.frame
        code = peek.word(frame + layout.frame_code)
        instruction = peek.word(frame + layout.instruction) - (code + layout.code)
        # Local variables lie below what is being computed with.
        own = peek.number(code + (layout.places or 0))
        stack = frame + layout.stack + 8 * own
        depth = peek.number(frame + layout.depth) - own
    awaited = peek.word(stack + 8 * (depth - 1)) if 0 < depth < 1 << 16 else 0
    return objects.place(code, instruction), awaited
