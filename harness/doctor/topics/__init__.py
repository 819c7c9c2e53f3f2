"""All topics in the order in which they are shown, and their checks."""

from __future__ import annotations

from harness.doctor.check import Check
from harness.doctor.topics import (
    debugger,
    disk,
    docker,
    docker_networks,
    gpu,
    gpu_cards,
    leftovers,
    limits,
    machine,
    model,
    network,
    ports,
    proxies,
    settings,
    stack,
    training,
)
from harness.errors import UsageError

TITLES: dict[str, str] = {
    "machine": "Machine",
    "disk": "Disks",
    "docker": "Docker",
    "ports": "Ports",
    "network": "Network",
    "gpu": "GPU",
    "stack": "Stack",
    "model": "Model",
    "training": "Training",
    "settings": "Settings",
    "debugger": "Debugger",
}
# Looked at where they are named only: they take longer than all others together.
ON_REQUEST = frozenset({"debugger"})

CHECKS: tuple[Check, ...] = (
    *machine.CHECKS,
    *limits.CHECKS,
    *disk.CHECKS,
    *docker.CHECKS,
    *docker_networks.CHECKS,
    *ports.CHECKS,
    *network.CHECKS,
    *proxies.CHECKS,
    *gpu.CHECKS,
    *gpu_cards.CHECKS,
    *stack.CHECKS,
    *leftovers.CHECKS,
    *model.CHECKS,
    *training.CHECKS,
    *settings.CHECKS,
    *debugger.CHECKS,
)


def select(topics: str) -> tuple[Check, ...]:
    """The checks of some topics, given with commas between; for "" all of them save what is looked at on request.

    Raises:
        UsageError: there is no such topic; names those that there are.
    """
    wanted = [topic.strip().lower() for topic in topics.split(",") if topic.strip()]
    for topic in wanted:
        if topic not in TITLES:
            raise UsageError(
                f"The doctor has no topic `{topic}`.",
                consequence="Nothing was looked at.",
                mend=f"make doctor TOPIC={'|'.join(TITLES)}   # or several, with commas between",
            )
    return tuple(check for check in CHECKS if check.topic in (wanted or TITLES.keys() - ON_REQUEST))
