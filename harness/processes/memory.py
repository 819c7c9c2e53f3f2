"""Whether the kernel killed processes of this container for lack of memory."""

from __future__ import annotations

from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def out_of_memory_kills() -> int | None:
    """How many processes of our control group were killed so far; None where that can't be read.

    Inside a container the group's files are the root of what is mounted; outside its path is in /proc.
    """
    for path, key in _candidates():
        try:
            return parse_kills(path.read_text(encoding="ascii"), key)
        except (OSError, ValueError):
            continue
    return None


def parse_kills(content: str, key: str) -> int:
    """The number behind ``key`` in ``memory.events`` or ``memory.oom_control``.

    Raises:
        ValueError: there is no such line (kernels before 4.13).
    """
    for text in content.splitlines():
        name, _, value = text.partition(" ")
        if name == key:
            return int(value)
    raise ValueError(f"no line {key}")


def _candidates() -> list[tuple[Path, str]]:
    found: list[tuple[Path, str]] = []
    try:
        groups = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return found
    for group in groups:
        number, controllers, path = group.split(":", 2)
        inner = path.lstrip("/")
        if number == "0":
            found += [(_CGROUPS / inner / "memory.events", "oom_kill"), (_CGROUPS / "memory.events", "oom_kill")]
        elif "memory" in controllers.split(","):
            found += [
                (_CGROUPS / "memory" / inner / "memory.oom_control", "oom_kill"),
                (_CGROUPS / "memory" / "memory.oom_control", "oom_kill"),
            ]
    return found
