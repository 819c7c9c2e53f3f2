"""What is in an image, as data for reports: its id, its digests, and every package with its version."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import docker.errors

from harness.settings import Settings

# Runs inside the image, on whatever Python it has: so the standard library only.
_LIST = """
import importlib.metadata, json, platform, subprocess
python = {d.metadata["Name"]: d.version for d in importlib.metadata.distributions() if d.metadata["Name"]}
try:
    listing = ["dpkg-query", "-W", "-f", "${binary:Package} ${Version}\\n"]
    debian = dict(line.split() for line in subprocess.run(listing, capture_output=True, text=True).stdout.splitlines())
except OSError:
    debian = {}
print(json.dumps({"version": platform.python_version(), "python": python, "debian": debian}))
"""
_PYTHONS = ("/opt/venv/bin/python", "/opt/engine/bin/python", "/opt/gateway/bin/python", "python3")


@dataclass(frozen=True)
class Fingerprint:
    """What an image is made of.

    Attributes:
        reference: the name it was looked up by.
        id: the engine's id of it.
        digests: names by which a registry has it; empty for what was built here.
        python_version: of the first Python environment found.
        python: package to version in that environment.
        debian: Debian package to version.
    """

    reference: str
    id: str
    digests: tuple[str, ...]
    created: str
    python_version: str
    python: dict[str, str]
    debian: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def fingerprint(client: Any, settings: Settings, reference: str) -> Fingerprint:
    """Look into an image; the answer is kept, for an image of one id never changes.

    Raises:
        docker.errors.ImageNotFound: there is no such image.
    """
    image = client.images.get(reference)
    kept = settings.state_dir / "fingerprints" / f"{image.id.replace(':', '-')}.json"
    try:
        inside = json.loads(kept.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        inside = _look_inside(client, image.id)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(inside), encoding="utf-8")
    return Fingerprint(
        reference=reference,
        id=image.id,
        digests=tuple(image.attrs.get("RepoDigests") or ()),
        created=str(image.attrs.get("Created", "")),
        python_version=inside["version"],
        python=dict(sorted(inside["python"].items())),
        debian=dict(sorted(inside["debian"].items())),
    )


def _look_inside(client: Any, image_id: str) -> dict[str, Any]:
    """Run the listing in a container without network that is gone afterwards."""
    script = 'for p in {}; do command -v $p >/dev/null && exec $p -c "$LIST"; done'.format(" ".join(_PYTHONS))
    try:
        output = client.containers.run(
            image_id,
            entrypoint=["/bin/sh", "-c", script],
            environment={"LIST": _LIST},
            network_mode="none",
            remove=True,
            user="65534",
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
        )
        found: dict[str, Any] = json.loads(output)
    except (docker.errors.ContainerError, docker.errors.APIError, ValueError):
        return {"version": "", "python": {}, "debian": {}}
    return found
