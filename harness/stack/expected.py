"""What there should be once a plan is carried out, and how it is asked; needs neither Docker nor pydantic."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Expected:
    """What there should be, and how it is asked.

    Attributes:
        services: Compose service to the number of its containers.
        ray_nodes: nodes that Ray's head should count.
        port, dashboard_port: on this machine's 127.0.0.1.
        keys: folder of the key files.
        head: the service that is Ray's head; ``dev`` where the cluster is shared with other machines.
    """

    project: str
    services: dict[str, int]
    ray_nodes: int
    port: int
    dashboard_port: int
    keys: str
    head: str = "ray-head"

    def key(self, name: str) -> str:
        """A key by its file's name, "" where it isn't there."""
        try:
            return Path(self.keys, name).read_text(encoding="utf-8").strip()
        except (OSError, ValueError):  # not there, or no text
            return ""
