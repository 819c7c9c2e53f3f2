"""How much of the machine ``dev`` and each Ray node may take, so that a runaway agent can't take the server down.

Agents run code in these containers. Memory and the number of processes are limited; of the processors' time, which is
shared out fairly anyway, they have half the inference server's weight. Decides only; what the engine says of its
machine is gathered by :func:`look`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from harness.errors import BadSetting
from harness.settings import Settings

GIB = 2**30
# Ray's own processes take most of a gigabyte before any task of yours runs.
_LEAST_MEMORY, _LEAST_PIDS = GIB, 512
# Threads count. The kernel's default for the whole machine is 32768, or 1024 for each core if that is more: a quarter
# of it for each container. A Ray worker has 40 threads or so, and one is started for each core.
_PIDS, _PIDS_A_CORE = 8192, 256
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


@dataclass(frozen=True)
class Engine:
    """What the Docker engine says of its machine, which may be another than ours.

    Attributes:
        memory: bytes; 0 where it doesn't say.
        cores: likewise.
        cannot: what it can't limit: its control groups lack that, as often without root.
    """

    memory: int = 0
    cores: int = 0
    cannot: tuple[str, ...] = ()


@dataclass(frozen=True)
class Limits:
    """Of each of these containers; 0: none.

    Attributes:
        memory: bytes, swap among them.
        pids: processes and threads.
        cpus: cores.
    """

    memory: int = 0
    pids: int = 0
    cpus: float = 0.0
    cannot: tuple[str, ...] = ()

    def variables(self) -> dict[str, str]:
        """For the Compose files."""
        return {
            "DRYDOCK_MEMORY": str(self.memory),
            "DRYDOCK_PIDS": str(self.pids or -1),
            "DRYDOCK_CPUS": f"{self.cpus:g}",
        }

    def shown(self) -> str:
        """For a person."""
        parts = [f"{self.memory / GIB:.3g} GiB of memory"] if self.memory else []
        parts += [f"{self.pids} processes"] if self.pids else []
        parts += [f"{self.cpus:g} cores"] if self.cpus else []
        return f"dev and each Ray node: {', '.join(parts)}" if parts else "none"


def look(client: Any) -> Engine:
    """Ask the engine."""
    info = client.info()
    names = {"memory": "MemoryLimit", "processes": "PidsLimit", "processors": "CPUShares"}
    # An engine that doesn't know one of these says nothing of it.
    cannot = tuple(word for word, name in names.items() if info.get(name) is False)
    return Engine(int(info.get("MemTotal") or 0), int(info.get("NCPU") or 0), cannot)


def decide(settings: Settings, engine: Engine, weights: int = 0) -> Limits:
    """The limits: those that were asked for, and else what leaves the machine and the server room.

    Args:
        weights: bytes of a model that is served from this machine's memory.

    Raises:
        BadSetting: MEMORY_LIMIT is no amount, or too little to start with.
    """
    asked = _asked(settings.memory_limit)
    memory = _memory(engine.memory, weights) if asked is None else asked
    pids = settings.pids_limit or max(_PIDS, _PIDS_A_CORE * engine.cores)
    if pids < _LEAST_PIDS:
        raise BadSetting(
            f"PIDS_LIMIT={pids} is too few: Ray alone has hundreds of threads.", mend="make up PIDS_LIMIT="
        )
    return Limits(memory, pids, settings.cpu_limit, engine.cannot)


def _memory(total: int, weights: int) -> int:
    """All but an eighth for the machine (1 GiB at least), and but for what the server needs; in whole GiB.

    Whole ones, because a kernel's update changes the machine's memory by a little, and each change of a limit makes
    the containers anew. Of a small machine half is left in any case.
    """
    if not total:
        return 0
    server = weights * 5 // 4 + GIB // 2 if weights else 0
    left = total - max(GIB, total // 8) - server
    return max(left // GIB * GIB, total // 2, _LEAST_MEMORY)


def _asked(text: str) -> int | None:
    """Bytes that were asked for, 0 for none, None where nothing was."""
    if not text:
        return None
    if text == "none":
        return 0
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if found is None:
        raise BadSetting(f"MEMORY_LIMIT={text} is no amount of memory.", mend="make up MEMORY_LIMIT=12g   # or none")
    amount = int(float(found[1]) * _UNITS[found[2]])
    if amount < _LEAST_MEMORY:
        raise BadSetting(
            f"MEMORY_LIMIT={text} is too little: Ray alone takes most of a gigabyte.", mend="make up MEMORY_LIMIT=2g"
        )
    return amount
