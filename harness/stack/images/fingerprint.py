"""What is in an image, as data for reports: its id, its digests, and every package with its version."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import docker.errors

from harness.settings import Settings

# Runs inside the image, on each Python of it: so the standard library only.
_LIST = """
import importlib.metadata, json, platform, subprocess, sys
packages = {d.metadata["Name"]: d.version for d in importlib.metadata.distributions() if d.metadata["Name"]}
try:
    listing = ["dpkg-query", "-W", "-f", "${binary:Package} ${Version}\\n"]
    debian = dict(line.split() for line in subprocess.run(listing, capture_output=True, text=True).stdout.splitlines())
except OSError:
    debian = {}
print(json.dumps({"at": sys.prefix, "version": platform.python_version(), "packages": packages, "debian": debian}))
"""
# A stranger's image may have more than one too: conda's, a virtual environment, and the system's.
_PYTHONS = ("/opt/*/bin/python", "/venv/bin/python", "/root/.venv/bin/python", "python", "python3")
_EACH = 'for p in {}; do if command -v "$p" >/dev/null; then "$p" -c "$LIST" || true; fi; done'


@dataclass(frozen=True)
class Environment:
    """One Python of an image, and what is installed in it.

    Attributes:
        packages: name to version.
    """

    version: str
    packages: dict[str, str]


@dataclass(frozen=True)
class Fingerprint:
    """What an image is made of.

    Attributes:
        reference: the name it was looked up by.
        id: the engine's id of it.
        digests: names by which a registry has it; empty for what was built here.
        environments: where a Python lies (its ``sys.prefix``) to what it has; the engine's and the gateway's are two.
        debian: Debian package to version.
    """

    reference: str
    id: str
    digests: tuple[str, ...]
    created: str
    environments: dict[str, Environment]
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
        # What an earlier Drydock kept knows one environment alone.
        inside["environments"], inside["debian"]
    except (OSError, ValueError, KeyError, TypeError):
        inside = _look_inside(client, image.id)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(inside), encoding="utf-8")
    return Fingerprint(
        reference=reference,
        id=image.id,
        digests=tuple(image.attrs.get("RepoDigests") or ()),
        created=str(image.attrs.get("Created", "")),
        environments={
            place: Environment(one["version"], dict(sorted(one["packages"].items())))
            for place, one in sorted(inside["environments"].items())
        },
        debian=dict(sorted(inside["debian"].items())),
    )


def _look_inside(client: Any, image_id: str) -> dict[str, Any]:
    """Run the listing in a container without network that is gone afterwards."""
    try:
        output = client.containers.run(
            image_id,
            entrypoint=["/bin/sh", "-c", _EACH.format(" ".join(_PYTHONS))],
            environment={"LIST": _LIST},
            network_mode="none",
            remove=True,
            user="65534",
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
        )
    except (docker.errors.ContainerError, docker.errors.APIError):
        return {"environments": {}, "debian": {}}
    return read_listing(output.decode("utf-8", "replace"))


def read_listing(output: str) -> dict[str, Any]:
    """Decide: what each Python said, a line each; one that was found under two names is one."""
    environments: dict[str, dict[str, Any]] = {}
    debian: dict[str, str] = {}
    for line in output.splitlines():
        try:
            said = json.loads(line)
            environments[said["at"]] = {"version": said["version"], "packages": said["packages"]}
            debian |= said["debian"]
        except (ValueError, KeyError, TypeError):
            continue  # a sitecustomize that prints, say
    return {"environments": environments, "debian": debian}
