"""Stands around the user's agent in AReaL's worker and notes what AReaL keeps to itself: what a run returned or raised.

AReaL makes it as it would make the agent, from a name and keyword arguments, and judges it by the same signs: where the
agent has no ``run``, or none that is a coroutine function, neither has this. Notes are lines of a file. Only the
standard library is imported: this runs in AReaL's own interpreter.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import importlib.util
import json
import os
import sys
import threading
import time
import traceback
from typing import Any

MARK = "drydock_index"
_loading = threading.Lock()


class Agent:
    """The user's agent, observed.

    Args:
        drydock: names of its module, its class, file and arguments, the folders where it lies, the file for notes,
            the module that puts a reward into words, and for each address of AReaL's proxies the one through which an
            agent's calls are seen.
    """

    def __init__(self, drydock: dict[str, Any]) -> None:
        self._notes = drydock["notes"]
        self._rewards = drydock["rewards"]
        self._doors = drydock.get("doors") or {}
        try:
            agent_class = _find(drydock)
            self._agent = agent_class(**drydock["arguments"])
        except BaseException as error:
            _note(self._notes, "made", **_raised(error))
            raise
        run = getattr(self._agent, "run", None)
        if not asyncio.iscoroutinefunction(run):
            self.run = run  # type: ignore[assignment]

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> Any:
        """One run of the agent; what it returns goes to AReaL unchanged."""
        data = dict(data)
        index = data.pop(MARK, None)
        self._lead(extra_kwargs)
        key = extra_kwargs.get("api_key") or os.environ.get("OPENAI_API_KEY", "")
        about = {"index": index, "session": hashlib.sha256(str(key).encode()).hexdigest()[:16]}
        began = time.time()
        _note(self._notes, "began", **about, given=sorted(extra_kwargs), pid=os.getpid())
        try:
            reward = await self._agent.run(data, **extra_kwargs)
        except BaseException as error:
            _note(self._notes, "raised", **about, seconds=time.time() - began, **_raised(error))
            raise
        _note(self._notes, "returned", **about, seconds=time.time() - began, reward=_describe(self._rewards, reward))
        return reward

    def _lead(self, extra_kwargs: dict[str, Any]) -> None:
        """Have the agent's calls go where they are seen: by what it is given, or what its own process is told."""
        if extra_kwargs.get("base_url") in self._doors:
            extra_kwargs["base_url"] = self._doors[extra_kwargs["base_url"]]
        for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
            if os.environ.get(name) in self._doors:
                os.environ[name] = self._doors[os.environ[name]]


def _find(drydock: dict[str, Any]) -> Any:
    """The class, under a name by which the worker finds its module; from its file where there is none."""
    file = drydock["file"]
    name = next((one for one in drydock["names"] if _leads_to(one, file)), None)
    _note(drydock["notes"], "found", importable=name is not None, module=name or drydock["names"][0])
    if name is not None:
        module = importlib.import_module(name)
    else:
        module = _from_file(drydock["names"][0], file, drydock["search"])
    found: Any = module
    for part in drydock["class"].split("."):
        found = getattr(found, part)
    return found


def _leads_to(name: str, file: str | None) -> bool:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    return spec is not None and (file is None or (bool(spec.origin) and os.path.realpath(spec.origin or "") == file))


def _from_file(name: str, file: str | None, search: list[str]) -> Any:
    for folder in reversed(search):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    own = importlib.util.spec_from_file_location(name, file) if file else None
    if own is None or own.loader is None:
        return importlib.import_module(name)
    module = importlib.util.module_from_spec(own)
    sys.modules[name] = module
    try:
        own.loader.exec_module(module)
    except BaseException:
        # Else the next run finds half a module by its name, and says that its class is missing.
        del sys.modules[name]
        raise
    return module


def _describe(file: str, reward: Any) -> dict[str, Any]:
    """What a reward is, by the same words as in the other stages; their module needs nothing but Python."""
    with _loading:  # reward functions run in threads
        module = sys.modules.get("drydock_rewards")
        if module is None:
            spec = importlib.util.spec_from_file_location("drydock_rewards", file)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules["drydock_rewards"] = module
            spec.loader.exec_module(module)
    described: dict[str, Any] = module.describe(reward).as_dict()
    return described


def _raised(error: BaseException) -> dict[str, Any]:
    frames = [
        {"file": frame.filename, "line": frame.lineno, "function": frame.name, "source": frame.line or ""}
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__
    ]
    return {"error": type(error).__name__, "text": str(error)[:2000], "frames": frames[-40:]}


def _note(file: str, event: str, **fields: Any) -> None:
    line = json.dumps({"event": event, "time": time.time(), **fields}, default=str).encode() + b"\n"
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)
