"""Whether a debugger would work in this process: versions, switches, sources, ports, and what Ray has said of it."""

from __future__ import annotations

import builtins
import gc
import importlib.machinery
import importlib.util
import os
import platform
import stat
import sys
import sysconfig
import types
import zlib
from typing import Any

from harness.breakpoints.inside import listening, tracing

# What decides whether `breakpoint()` stops, and what makes all of it slow.
SWITCHES = (
    "RAY_DEBUG", "RAY_DEBUG_POST_MORTEM", "RAY_DEBUG_POSTMORTEM", "PYTHONBREAKPOINT", "PYDEVD_USE_CYTHON",
    "PYDEVD_USE_FRAME_EVAL", "PYTHONASYNCIODEBUG", "CUDA_LAUNCH_BLOCKING", "TORCH_DISTRIBUTED_DEBUG",
)  # fmt: skip
# What Ray and debugpy write into a worker's standard error where a breakpoint comes to nothing.
TELLING = ("listen() has already been called", "debugpy>=1.8.0' cannot be loaded")
MOST_FILES = 200
LOG_BYTES = 65536


def of_this_process() -> dict[str, Any]:
    """Everything, as plain data."""
    return {
        "python": platform.python_version(),
        "ray": _ray(),
        **_debugpy(),
        "switches": {name: os.environ[name] for name in SWITCHES if name in os.environ},
        "hook": _hook(),
        "session": _session(),
        "debugger": _debugger(),
        "log_points": tracing.active(),
        "files": files(_sources()),
        "said": _said(),
    }


def files(names: list[str]) -> list[list[Any]]:
    """Path and checksum of each file; None where it can't be read here."""
    return [[name, _checksum(name)] for name in names]


def _checksum(name: str) -> int | None:
    try:
        with open(name, "rb") as file:
            return zlib.crc32(file.read())
    except OSError:
        return None


def _ray() -> str | None:
    from importlib import metadata

    try:
        return getattr(sys.modules.get("ray"), "__version__", None) or metadata.version("ray")
    except metadata.PackageNotFoundError:
        return None


def _debugpy() -> dict[str, Any]:
    """The debugpy that an import would give, which isn't done for it."""
    try:
        spec = importlib.util.find_spec("debugpy")
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.origin:
        return {"debugpy": None, "debugpy_at": "", "compiled": None}
    version = _version_beside(spec.origin)
    bundle = os.path.join(os.path.dirname(spec.origin), "_vendored", "pydevd", "_pydevd_bundle")
    suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    names = os.listdir(bundle) if os.path.isdir(bundle) else []
    compiled = any("cython" in name and name.endswith(suffixes) for name in names) if names else None
    return {"debugpy": version, "debugpy_at": spec.origin, "compiled": compiled}


def _version_beside(origin: str) -> str:
    loaded = sys.modules.get("debugpy")
    if version := getattr(loaded, "__version__", None):
        return str(version)
    from importlib import metadata

    try:
        found = metadata.distribution("debugpy")
        # The version of another copy says nothing about the one that is imported.
        if os.path.samefile(str(found.locate_file("debugpy")), os.path.dirname(origin)):
            return found.version
    except (metadata.PackageNotFoundError, OSError):
        pass
    return "unknown"


def _hook() -> str:
    """Whose `breakpoint()` is: "ray", "python" (a process without Ray), or the name of what has replaced it."""
    if getattr(builtins.breakpoint, "__module__", "") not in ("builtins", "ray.util.debugpy", "ray.util.rpdb"):
        return f"{builtins.breakpoint.__module__}.{builtins.breakpoint.__name__}"
    hook = sys.breakpointhook
    if isinstance(hook, types.BuiltinFunctionType) and hook.__name__ == "breakpointhook":
        wanted = os.environ.get("PYTHONBREAKPOINT", "")
        return "ray" if wanted.startswith("ray.util.") else f"PYTHONBREAKPOINT={wanted}" if wanted else "python"
    module = str(getattr(hook, "__module__", ""))
    return "ray" if module.startswith("ray.util.") else f"{module}.{getattr(hook, '__name__', '?')}"


def _session() -> str:
    """The Ray session that this process has joined: one a start of a cluster."""
    worker = getattr(sys.modules.get("ray._private.worker"), "global_worker", None)
    if worker is None or not getattr(worker, "connected", False):
        return ""
    return str(getattr(worker.node, "session_name", ""))


def _debugger() -> dict[str, Any]:
    address = listening.address()
    return {
        "address": address,
        "attached": listening.attached(),
        "by": listening.begun_by,
        "listens": _listens(address[1]) if address else None,
    }


def _listens(port: int) -> bool | None:
    """Whether anybody on this node listens at a port; no connection is made, it might count as a debugger's."""
    wanted, found = f":{port:04X}", None
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(name) as table:
                rows = [line.split() for line in table.readlines()[1:]]
        except OSError:
            continue
        found = bool(found) or any(row[1].endswith(wanted) and row[3] == "0A" for row in rows)
    return found


def _sources() -> list[str]:
    """The user's own source files that are loaded: whatever isn't in an installed package or of Python itself."""
    installed = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    installed |= {os.path.realpath(path) for path in installed}
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    found = set()
    names = {str(getattr(module, "__file__", None) or "") for module in list(sys.modules.values())}
    # What came by pickle is in no module.
    names |= {thing.__code__.co_filename for thing in gc.get_objects() if type(thing) is types.FunctionType}
    for name in names:
        if not name.endswith(".py") or not os.path.isabs(name) or name.startswith(os.path.join(here, "")):
            continue
        parts = name.split("/")
        if "site-packages" in parts or "dist-packages" in parts or any(name.startswith(f"{p}/") for p in installed):
            continue
        found.add(name)
    return sorted(found)[:MOST_FILES]


def _said() -> list[str]:
    """The telling lines at the end of this process's standard error, where that is a file of Ray's."""
    try:
        if not stat.S_ISREG(os.fstat(2).st_mode):
            return []
        with open(os.readlink("/proc/self/fd/2"), "rb") as log:
            log.seek(max(os.fstat(2).st_size - LOG_BYTES, 0))
            text = log.read().decode("utf-8", "replace")
    except OSError:
        return []
    return [telling for telling in TELLING if telling in text]
