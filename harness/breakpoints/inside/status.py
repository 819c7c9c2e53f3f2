"""What a process knows about itself: its part in Ray and in torch.distributed, who waits in it, who debugs it."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

from harness.breakpoints.inside import listening, paused


def of_this_process(role: str) -> dict[str, Any]:
    """Everything, as plain data; a part that can't be had is left out."""
    found: dict[str, Any] = {
        "pid": os.getpid(),
        "role": role,
        "python": platform.python_version(),
        "argv": sys.argv[:4],
        "paused": [*paused.waiting.values()],
        "frameworks": [name for name in ("areal", "verl") if name in sys.modules],
        "debugger": {"address": listening.address(), "attached": listening.attached()},
    }
    for part in (_ray, _distributed):
        try:
            found.update(part())
        except Exception:  # noqa: BLE001, S110
            pass
    return found


def names() -> dict[str, Any]:
    """What a hit of a log point is labelled with: actor and rank."""
    found: dict[str, Any] = {}
    for part in (_ray, _distributed):
        try:
            found.update(part())
        except Exception:  # noqa: BLE001, S110
            pass
    return {name: found[name] for name in ("actor", "rank", "worker_id") if found.get(name) is not None}


def _ray() -> dict[str, Any]:
    module = sys.modules.get("ray._private.worker")
    worker = getattr(module, "global_worker", None)
    if worker is None or not getattr(worker, "connected", False):
        return {}
    found = {"worker_id": worker.worker_id.hex() if hasattr(worker.worker_id, "hex") else str(worker.worker_id)}
    for actor in getattr(worker, "actors", {}).values():
        found["actor"] = type(actor).__name__
    # Its name isn't asked for here: in a process that is no actor, Ray's core would abort it.
    return found


def _distributed() -> dict[str, Any]:
    found: dict[str, Any] = {}
    if rank := os.environ.get("RANK", ""):
        found["rank"] = int(rank)
    module = sys.modules.get("torch.distributed.distributed_c10d")
    if module is not None and module.is_initialized():
        found["rank"] = module.get_rank()
        found["world_size"] = module.get_world_size()
        found["backend"] = module.get_backend()
        group = module._get_default_group()
        backend = group._get_backend(__import__("torch").device("cpu" if found["backend"] == "gloo" else "cuda"))
        options = getattr(backend, "options", None)
        timeout = getattr(options, "_timeout", None)
        if timeout is not None:
            found["collective_timeout"] = timeout.total_seconds()
    return found
