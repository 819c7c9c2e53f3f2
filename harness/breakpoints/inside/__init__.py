"""What runs inside the processes that are debugged: the standard library only, and nothing until it is needed.

The image runs ``install`` at every start of Python, out of a ``.pth`` file (docker/dev/prepare); elsewhere
``python -m harness.breakpoints.inside`` puts that file into the environment it is called with. Not Ray's
``worker_process_setup_hook``: there is one of those a job, and verl and AReaL set their own.

Three things follow, each when the module that it is about has been imported:

* ``debugpy.listen`` takes its port from a known range, and a second call returns the first one's address;
* a process that has joined a Ray cluster gets a thread that waits for questions (agent.py);
* what waits at a ``breakpoint()`` is remembered, with its place, its time and its exception (paused.py).

A process that shall have the thread without Ray is started with ``DRYDOCK_DEBUGGABLE=1`` or imports AReaL's RPC server.
Every other one gets it when it is sent ``ATTACH_SIGNAL``: so a debugger comes in without ptrace, which Ubuntu's kernels
and containers forbid between neighbours, and without gdb. Only a process that catches the signal (``SigCgt`` in its
status) may be sent it: others would end. ``DRYDOCK_DEBUGGABLE=0`` leaves it out.
"""

from __future__ import annotations

import os
import sys

# Not from typing: this runs at every start of Python.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Where debuggers and the threads that answer questions listen. Below the ports that a kernel gives to outgoing
# connections (32768 and up) and above those of Ray's workers (10002 to 19999).
DEBUGGER_PORTS = range(int(os.environ.get("DRYDOCK_DEBUGGER_PORTS", "21000")), 32768)[:512]
AGENT_PORTS = range(DEBUGGER_PORTS.stop, 32768)[:512]
# A real-time signal, as that of harness/hooks.py: SIGUSR1 and SIGUSR2 belong to Slurm, Lightning and the program.
ATTACH_SIGNAL = 42


def install() -> None:
    """Wait for the modules that matter; never fails, for it runs at every start of Python."""
    try:
        if "drydock_debugging" in sys.modules:
            return
        sys.modules["drydock_debugging"] = sys.modules[__name__]
        sys.meta_path.insert(0, _WhenImported(_PARTS))
        wish = os.environ.get("DRYDOCK_DEBUGGABLE", "")
        if wish not in ("", "0"):
            start_agent("process")
        elif wish != "0":
            _wait_for_signal()
        os.register_at_fork(after_in_child=_after_fork)
    except Exception:  # noqa: BLE001, S110  # a program without a debugger is better than none
        pass


def _wait_for_signal() -> None:
    # The built-in module: `signal` itself takes a millisecond, at every start of Python.
    import _signal  # type: ignore[import-not-found]  # the stubs have none of it
    import _thread

    def begin(_number: int, _frame: Any) -> None:
        # Here, for it takes whichever thread imports it first for the main one; with another, debugpy takes the program
        # for ended.
        import threading  # noqa: F401

        # In a thread: the main one may be in the middle of anything, an import or this very start among it.
        _thread.start_new_thread(start_agent, ("process",))

    if _signal.getsignal(ATTACH_SIGNAL) == _signal.SIG_DFL:
        _signal.signal(ATTACH_SIGNAL, begin)


def _after_fork() -> None:
    """A forked child has none of its parent's threads; it is asked on a port of its own.

    Nothing is imported here: most children are about to run another program, and an import that another thread of the
    parent was in at that moment would never come to its end. Ray Client's server hung so on a busy machine.
    """
    agent: Any = sys.modules.get(f"{__name__}.agent")
    if getattr(agent, "running", None) is not None:
        role, host = agent.running.role, agent.running.host
        agent.running.socket.close()
        agent.running = None
        start_agent(role, host)


def start_agent(role: str, host: str = "") -> None:
    """Start the thread that answers questions; nothing where it runs already."""
    from harness.breakpoints.inside import agent

    agent.start(role, host)


def _debugpy(module: Any) -> None:
    from harness.breakpoints.inside import listening

    listening.take_ports_from(module, DEBUGGER_PORTS)


def _ray_worker(module: Any) -> None:
    connect = module.connect

    def connected(node: Any, *args: Any, **kwargs: Any) -> Any:
        result = connect(node, *args, **kwargs)
        try:
            mode = kwargs.get("mode", args[1] if len(args) > 1 else module.WORKER_MODE)
            if mode in (module.WORKER_MODE, module.SCRIPT_MODE):
                role = "worker" if mode == module.WORKER_MODE else "driver"
                start_agent(role, getattr(module.global_worker, "node_ip_address", "") or "")
        except Exception:  # noqa: BLE001, S110
            pass
        return result

    module.connect = connected


def _ray_debugger(module: Any) -> None:
    from harness.breakpoints.inside import paused

    paused.remember(module)


def _areal_worker(_module: Any) -> None:
    start_agent("areal")


_PARTS: dict[str, Callable[[Any], None]] = {
    "debugpy.public_api": _debugpy,
    "ray._private.worker": _ray_worker,
    "ray.util.debugpy": _ray_debugger,
    "areal.infra.rpc.rpc_server": _areal_worker,
}


class _WhenImported:
    """Calls a function with a module right after it was executed."""

    def __init__(self, parts: dict[str, Callable[[Any], None]]) -> None:
        self._parts = dict(parts)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Let the other finders find the module, and put the function behind its execution."""
        if name not in self._parts:
            return None
        then = self._parts.pop(name)
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is None or spec.loader is None:
                continue
            execute = spec.loader.exec_module

            def exec_module(module: Any, execute: Any = execute) -> None:
                execute(module)
                try:
                    then(module)
                except Exception:  # noqa: BLE001, S110
                    pass

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
            return spec
        return None
