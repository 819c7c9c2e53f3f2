"""debugpy in a process that is to be debugged: on a port that is known, once, and without waiting for anybody."""

from __future__ import annotations

import errno
import importlib
import os
import socket
import sys
from collections.abc import Iterable
from typing import Any

# Where debugpy lies, if the process that was entered from outside has none of its own.
last_resort = ""
_address: tuple[str, int] | None = None
# File and line of the first call of debugpy.listen; "" before it.
begun_by = ""

# An expression that never returns is given up after this time, and the worker is still there.
EVALUATION_SECONDS = "30"


def take_ports_from(public_api: Any, ports: range) -> None:
    """Make ``debugpy.listen((host, 0))`` take the first free port of a range, and be called as often as one likes."""
    os.environ.setdefault("PYDEVD_INTERRUPT_THREAD_TIMEOUT", EVALUATION_SECONDS)
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    listen = public_api.listen

    def listen_in_range(address: Any, **kwargs: Any) -> tuple[str, int]:
        global _address, begun_by
        if _address is not None:
            return _address
        host, wanted = address if isinstance(address, tuple) else ("127.0.0.1", address)
        found: tuple[str, int] | None = None
        for port in [] if wanted else _first_free(host, ports):
            try:
                found = listen((host, port), **kwargs)
                break
            except RuntimeError as error:
                if "address" not in str(error).lower():
                    raise
                # Somebody else was quicker: the next one.
        _address = found or listen((host, wanted), **kwargs)
        caller = sys._getframe(1)
        begun_by = f"{caller.f_code.co_filename}:{caller.f_lineno}"
        if _ray_worker() is not None:
            _give_breakpoint_to_ray()
        return _address

    public_api.listen = listen_in_range


def _first_free(host: str, ports: range) -> Iterable[int]:
    """Ports of a range that can be bound now, beginning at one that depends on the process."""
    for step in range(len(ports)):
        port = ports[(os.getpid() + step) % len(ports)]
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
        yield port


def listen(host: str) -> dict[str, Any]:
    """Let a debugger in; where Ray is, its table of workers and its ``breakpoint()`` are told."""
    try:
        import debugpy
    except ImportError:
        sys.path.append(last_resort)
        import debugpy
    ray_debugger = sys.modules.get("ray.util.debugpy")
    if _ray_worker() is not None and ray_debugger is not None:
        ray_debugger._ensure_debugger_port_open_thread_safe()
        _give_breakpoint_to_ray()
    else:
        debugpy.listen((host, 0))
    found = address()
    if found is None:
        raise RuntimeError("debugpy listens, but on a port that is not known")
    return {"host": found[0], "port": found[1]}


def _give_breakpoint_to_ray() -> None:
    """debugpy has put its own `breakpoint()` in the place of Ray's, at which nobody would be paused."""
    try:
        importlib.import_module("ray.util.debugpy")._override_breakpoint_hooks()
    except (ImportError, AttributeError):
        pass  # another Ray than those that we know


def address() -> tuple[str, int] | None:
    """Where debugpy listens in this process."""
    return _address


def attached() -> bool:
    """Whether a debugger is attached now."""
    debugpy = sys.modules.get("debugpy")
    try:
        return bool(_address is not None and debugpy is not None and debugpy.is_client_connected())
    except Exception:  # noqa: BLE001
        return False


def _ray_worker() -> Any:
    module = sys.modules.get("ray._private.worker")
    worker = getattr(module, "global_worker", None)
    return worker if worker is not None and getattr(worker, "connected", False) else None
