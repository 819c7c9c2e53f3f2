"""Processes of this machine that stand in debugpy until a client comes, and of which Ray knows nothing.

Two kinds: started under debugpy, so that none of their own code has run yet, as AReaL's worker in stage 4 with
``BREAK=1``; and those whose own code calls ``debugpy.wait_for_client()``, as verl's there and many a script. Neither
can be asked: the first have nothing of ours in them, the others stand still.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import psutil

from harness.breakpoints.model import Worker
from harness.processes.sampling.dumper import Dumper

STACK_SECONDS = 5.0
# Words end with NUL; between the two options and the program others may stand, each with its value.
_BEGUN = re.compile(
    r"\0-m\0debugpy\0--listen\0(?:([^\0]+):)?(\d+)\0--wait-for-client\0(?:--[^\0]+\0[^\0]+\0)*(?:-[mc]\0)?([^\0-][^\0]*)"
)
# debugpy.listen() starts this for clients, as no child of the process that called it, but connected with it.
_ADAPTER = re.compile(r"\0[^\0]*debugpy/adapter\0--for-server\0\d+\0(?:--host\0([^\0]+)\0)?--port\0(\d+)\0")


def processes(known: Collection[int] = ()) -> list[Worker]:
    """All that let a debugger in and have none now; one that was attached to and left goes on, and is among them.

    Args:
        known: processes that are looked after already, such as Ray's workers at a breakpoint.
    """
    found, adapters = [], []
    for process in psutil.process_iter(["pid", "cmdline"]):
        command = process.info["cmdline"] or ()
        if (begun := begun_under_debugpy(command)) is not None:
            host, port, name = begun
            if process.info["pid"] not in known and _is_free(port):
                found.append(_worker(host, process.info["pid"], port, name))
        elif (listens := listens_for(command)) is not None:
            adapters.append((process.info["pid"], *listens))
    known = {*known, *(worker.pid for worker in found)}
    for adapter, host, port in adapters:
        for pid in _connected_with(adapter) - known:
            found += _calling(pid, host, port)
    return found


def begun_under_debugpy(command: Sequence[str]) -> tuple[str, int, str] | None:
    """Host, port and program of ``python -m debugpy --listen … --wait-for-client …``; None for any other command."""
    found = _BEGUN.search("\0".join(command))
    return (found[1] or "127.0.0.1", int(found[2]), found[3]) if found else None


def listens_for(command: Sequence[str]) -> tuple[str, int] | None:
    """Host and port for clients, where a command is debugpy's adapter beside a process; else None."""
    found = _ADAPTER.search("\0".join(["", *command, ""]))
    return (found[1] or "127.0.0.1", int(found[2])) if found else None


def standing_at(stacks: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The frame that called ``debugpy.wait_for_client()``, in any of a process's threads; None where none waits in it.

    Args:
        stacks: as py-spy's JSON has them, innermost frame first.
    """
    for thread in stacks:
        frames = list(thread.get("frames") or ())
        inner = [n for n, frame in enumerate(frames) if "/debugpy/" in (frame.get("filename") or "")]
        # py-spy writes a callable object's class before its method.
        waits = any("wait_for_client" in frames[n]["name"] for n in inner)
        if waits and inner[-1] + 1 < len(frames):
            found: Mapping[str, Any] = frames[inner[-1] + 1]
            return found
    return None


def _connected_with(adapter: int) -> set[int]:
    """Processes at the other end of an adapter's connections on this machine."""
    try:
        connections = psutil.net_connections("tcp")
    except psutil.Error:
        return set()
    ends = {one.raddr for one in connections if one.pid == adapter and one.raddr}
    return {one.pid for one in connections if one.laddr in ends and one.pid not in (None, adapter)}


def _calling(pid: int, host: str, port: int) -> Iterator[Worker]:
    """The process that called ``debugpy.listen()``, where it waits for a client now; it may as well run on."""
    if not _is_free(port):
        return
    try:
        process = psutil.Process(pid)
        name, state = " ".join(process.cmdline()[-2:])[:80] or process.name(), process.status()
    except psutil.Error:
        return
    dumped = Dumper(seconds=STACK_SECONDS).dump(pid, "S" if state == psutil.STATUS_SLEEPING else "R")
    frame = standing_at(json.loads(dumped.content)) if dumped.content else None
    if frame is not None:
        place = (str(frame.get("filename") or ""), int(frame.get("line") or 0), str(frame["name"]))
        yield _worker(host, pid, port, name, place)


def _worker(host: str, pid: int, port: int, name: str, place: tuple[str, int, str] | None = None) -> Worker:
    return Worker(host, pid, role="process", debugger_port=port, task=name, begins=True, place=place)


def _is_free(port: int) -> bool:
    """Whether somebody listens at a port of this machine and no client is there."""
    try:
        states = {one.status for one in psutil.net_connections("tcp") if one.laddr and one.laddr.port == port}
    except psutil.Error:
        return False
    return psutil.CONN_LISTEN in states and psutil.CONN_ESTABLISHED not in states
