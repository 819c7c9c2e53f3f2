"""Decides from looks since when nothing gets on. Pure."""

from __future__ import annotations

import re

from harness.errors import BadSetting
from harness.hang.watch.looks import Look

# Less than this share of a core is what a program uses that only waits: a heartbeat, a thread that polls.
_WAITING_SHARE = 0.02
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_of(text: str) -> float:
    """``90``, ``90s``, ``10m``, ``1.5h`` in seconds.

    Raises:
        BadSetting: it is nothing like that.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", text)
    if match is None or float(match[1]) == 0:
        raise BadSetting(f"AFTER={text} can't be used: a time such as 90s, 10m or 1h is meant")
    return float(match[1]) * _UNITS[match[2]]


class Quiet:
    """Takes one look after another.

    The surest sign that there is decides: a step counter; else logs that have grown at least once; else CPU and GPU. A
    program that logs and then computes without a word isn't called hung for it: it is dumped, and the stacks decide.
    """

    def __init__(self) -> None:
        self._last: Look | None = None
        self._since = 0.0
        self._logs_live = False

    def take(self, look: Look) -> float:
        """Add a look; returns for how many seconds nothing got on."""
        last, self._last = self._last, look
        if last is None:
            self._since = look.at
            return 0.0
        if look.logs != last.logs:
            self._logs_live = True
        if self._got_on(last, look):
            self._since = look.at
        return look.at - self._since

    def forget(self, look: Look) -> None:
        """Begin to count anew, from this look on."""
        self._since = look.at

    def _got_on(self, last: Look, look: Look) -> bool:
        if look.step is not None:
            return look.step != last.step
        if self._logs_live:
            return look.logs != last.logs
        if set(look.cpu) != set(last.cpu):
            return True  # somebody came or went
        span = max(look.at - last.at, 1e-6)
        used = sum(look.cpu[pid] - last.cpu[pid] for pid in look.cpu)
        return used / span > _WAITING_SHARE * max(1, len(look.cpu)) or bool(look.gpu)
