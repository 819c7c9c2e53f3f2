"""What a training process offers to `hang-dump` from inside, where ``DEBUG=`` asked for it.

The image's Python runs ``install`` at every start (docker/dev/prepare), so this imports next to nothing, and nothing
here may ever make a program fail. A process that has a part shows it by an open file of that name, in
``/proc/PID/fd``; what lies in that file is read there too. So nothing is left on any disk, and other mount or PID
namespaces don't matter.

``drydock-stacks``
    faulthandler writes all Python stacks into it on ``STACKS_SIGNAL``, without the interpreter's lock and without
    ptrace. Only a process that catches the signal (``SigCgt`` in its status) may be sent it: others would end.

``drydock-recorder``
    begins with a line ``{"request": FD}``. A byte written to ``/proc/PID/fd/FD`` makes a thread append one line with
    PyTorch's Flight Recorder, ``{"rank": …, "gloo": {…}, "nccl": {…}}``. PyTorch itself writes gloo's nowhere.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

HOOKS = "DRYDOCK_HOOKS"
STACKS = "drydock-stacks"
RECORDER = "drydock-recorder"
# A real-time signal: SIGUSR1 and SIGUSR2 belong to Slurm, Lightning and the program.
STACKS_SIGNAL = 41
C10D = "torch.distributed.distributed_c10d"
PATIENT_SECONDS = 86400

# Open files by the part that they belong to.
_files: dict[str, list[int]] = {}
_installed: list[str] = []


def install() -> None:
    """Install what ``DRYDOCK_HOOKS`` names, in this process and in those that it forks."""
    if _installed:
        return  # Debian's Python reads the folder that calls this twice
    try:
        _installed.extend(part for part in _PARTS if part in os.environ.get(HOOKS, "").split(","))
        for part in _installed:
            _PARTS[part]()
        os.register_at_fork(after_in_child=_after_fork)
    except Exception:  # noqa: BLE001, S110  # a training without stacks on request is better than none
        pass


def _stacks() -> None:
    import faulthandler

    file = _open(STACKS)
    faulthandler.register(STACKS_SIGNAL, file=file, all_threads=True)


def _recorder() -> None:
    # PyTorch writes its own dumps there after a time-out, and makes no folder for them.
    os.makedirs(os.path.dirname(os.environ.get("TORCH_FR_DUMP_TEMP_FILE", "/tmp/")), exist_ok=True)
    _once_imported(_serve_recorder)


def _patience() -> None:
    _once_imported(_raise_timeouts)


def _raise_timeouts() -> None:
    """A day at least for whoever waits for a rank that a person has paused; frameworks give limits of their own."""
    import datetime
    import functools
    import inspect

    module = sys.modules[C10D]
    least = datetime.timedelta(seconds=PATIENT_SECONDS)

    def patient(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            given = bound.arguments.get("timeout")
            bound.arguments["timeout"] = max(given, least) if isinstance(given, datetime.timedelta) else least
            return function(*bound.args, **bound.kwargs)

        return call

    for name in ("init_process_group", "new_group", "split_group"):
        if hasattr(module, name):
            setattr(module, name, patient(getattr(module, name)))


def _once_imported(then: Callable[[], None]) -> None:
    """Call a function as soon as torch.distributed is there."""
    if C10D in sys.modules:
        then()
    elif not any(isinstance(finder, _WhenImported) and finder.then is then for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenImported(C10D, then))


_PARTS: dict[str, Callable[[], None]] = {"faulthandler": _stacks, "recorder": _recorder, "patience": _patience}


def _after_fork() -> None:
    """A forked child has its parent's files and handlers, but no thread; give it its own."""
    try:
        for files in _files.values():
            for file in files:
                os.close(file)
        _files.clear()
        for part in _installed:
            _PARTS[part]()
    except Exception:  # noqa: BLE001, S110
        pass


def _open(name: str) -> int:
    """A file in memory that is always appended to, also after its reader has emptied it."""
    import fcntl

    file = os.memfd_create(name)
    fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)
    _files.setdefault(name, []).append(file)
    return file


def _serve_recorder() -> None:
    import json
    import threading

    readable, writable = os.pipe()
    file = _open(RECORDER)
    _files[RECORDER] += [readable, writable]
    os.write(file, json.dumps({"request": writable}).encode() + b"\n")

    def answer() -> None:
        while os.read(readable, 1):
            try:
                text = json.dumps(_recorded())
            except Exception as error:  # noqa: BLE001  # whoever asked is told
                text = json.dumps({"error": f"{type(error).__name__}: {error}"})
            os.write(file, text.encode() + b"\n")

    threading.Thread(target=answer, name="drydock-recorder", daemon=True).start()


def _recorded() -> dict[str, Any]:
    """Both Flight Recorders of this process, as far as they have entries; None of the functions waits for a peer."""
    import json

    c10d = sys.modules["torch._C._distributed_c10d"]
    group = sys.modules["torch.distributed.distributed_c10d"]
    found: dict[str, Any] = {"rank": group.get_rank() if group.is_initialized() else int(os.environ.get("RANK", "-1"))}
    for name, function in (("gloo", "_dump_fr_trace_json"), ("nccl", "_dump_nccl_trace_json")):
        dump = getattr(c10d, function, None)
        content = json.loads(dump()) if dump else {}
        if content.get("entries"):
            found[name] = content
    return found


class _WhenImported:
    """Calls a function once a module has been imported, and is gone from ``sys.meta_path`` by then."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name, self.then = name, then

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002
        """Let the others find the module, and put the function behind its execution."""
        if name != self._name:
            return None
        import importlib.util

        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def then(module: Any) -> None:
            execute(module)
            try:
                self.then()
            except Exception:  # noqa: BLE001, S110
                pass

        spec.loader.exec_module = then  # type: ignore[method-assign]
        return spec
