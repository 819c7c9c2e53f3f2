"""What is left of ours in Docker: containers of older versions, helpers without a task, stacks without their clone."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.doctor.check import Check
from harness.doctor.context import Context
from harness.doctor.findings import Finding, bad, mended, note, ok, warn

# A helper is started within seconds of its creation; see harness/docker_engine.py.
SECONDS_TO_START = 60


@dataclass(frozen=True)
class Left:
    """A container with labels or an image of ours.

    Attributes:
        project: of Compose, or the one that a helper works for.
        role: of a helper; "" for a service of a stack.
        target_gone: the container beside which a helper runs isn't there any more.
        clone: the folder that its stack was brought up from; "" where nothing says it.
        clone_gone: that folder isn't there any more; False where that can't be seen.
        image_gone: its image has no name any more: newer ones took its place, or it was removed.
        age: seconds since it was created.
    """

    id: str
    name: str
    project: str
    status: str
    role: str = ""
    target_gone: bool = False
    clone: str = ""
    clone_gone: bool = False
    image_gone: bool = False
    age: float = 0.0


def gather(client: Any, namespace: str, *, our_files: bool) -> list[Left]:
    """Everything of ours, whichever stack it belongs to; one request for containers, one for images."""
    from harness.docker_engine import FOLDER_LABEL, FOR_PROJECT_LABEL, PROJECT_LABEL, ROLE_LABEL
    from harness.stack.samplers import TARGET_LABEL

    listing = client.api.containers(all=True)
    ids = {one["Id"] for one in listing}
    # What was pulled by its digest has no tag.
    named = {
        image["Id"]
        for image in client.api.images()
        if any("<none>" not in name for kind in ("RepoTags", "RepoDigests") for name in image.get(kind) or [])
    }
    found = []
    for one in listing:
        labels = one.get("Labels") or {}
        role, image = labels.get(ROLE_LABEL, ""), one.get("Image", "")
        if not (role or labels.get("dev.drydock.image") or image.startswith(f"{namespace}/")):
            continue
        # A sampler's names its container and when that was started; a container's network may be another one's.
        target = labels.get(TARGET_LABEL, "").partition(" ")[0]
        target = target or str((one.get("HostConfig") or {}).get("NetworkMode", "")).partition("container:")[2]
        clone = labels.get(FOLDER_LABEL, "")
        found.append(
            Left(
                id=one["Id"],
                name=(one.get("Names") or ["/?"])[0].lstrip("/"),
                project=labels.get(PROJECT_LABEL) or labels.get(FOR_PROJECT_LABEL, ""),
                status=one.get("State", ""),
                role=role,
                target_gone=bool(target) and target not in ids,
                clone=clone,
                clone_gone=our_files and clone.startswith("/") and _gone(Path(clone)),
                image_gone=one.get("ImageID", "") not in named,
                age=time.time() - one.get("Created", 0),
            )
        )
    return found


def _gone(folder: Path) -> bool:
    try:
        folder.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False  # another user's
    return False


def decide(found: list[Left], project: str) -> list[Finding]:
    """Helpers that help nobody, containers whose image is gone, stacks whose clone is gone, stacks beside this one."""
    findings = []
    for one in found:
        if one.role and (
            one.target_gone or (one.status in ("created", "exited", "dead") and one.age > SECONDS_TO_START)
        ):
            why = "what it was started for is gone" if one.target_gone else f"it is {one.status}"
            found_left = warn(
                f"The helper {one.name} ({one.role}) is left over: {why}.",
                "It takes memory, and may hold a volume or a name that `make up` needs.",
                f"docker rm -f {one.name}",
            )
            # Another stack's are told, and left to whoever works with it.
            findings.append(mended(found_left, *_remove(one)) if one.project in ("", project) else found_left)
        elif not one.role and one.image_gone and one.project == project:
            findings.append(
                mended(
                    bad(
                        f"{one.name} ({one.status}) is of an older version: its image has no name any more.",
                        "It can't be made anew as it is, and what you changed since is not in it.",
                        f"docker rm -f {one.name}\nmake up   # makes a new one",
                    ),
                    *_remove(one),
                )
            )
    orphans: dict[tuple[str, str], list[Left]] = {}
    for one in found:
        if not one.role and one.clone_gone:
            orphans.setdefault((one.project, one.clone), []).append(one)
    for (name, clone), containers in sorted(orphans.items()):
        findings.append(
            warn(
                f"The stack `{name}` was brought up from {clone}, which is gone ({len(containers)} containers).",
                "It holds memory and perhaps ports, and what it has mounted from there can't be changed any more.",
                f"make down PROJECT={name}",
            )
        )
    others = sorted({one.project for one in found if one.project and one.status == "running"} - {project})
    others = [name for name in others if name not in {key[0] for key in orphans}]
    if others:
        findings.append(note(f"Other stacks of Drydock run here: {', '.join(others)}.", "They share cores and memory."))
    if not any(finding.sign in ("bad", "warn") for finding in findings):
        findings.insert(0, ok("nothing of ours is left over in Docker"))
    return findings


def _remove(one: Left) -> tuple[str, ...]:
    return ("docker", "rm", "-f", one.id)


def _left(context: Context) -> list[Finding]:
    engine = context.engine()
    if not engine.answers or not context.runs_stacks:
        return []
    found = gather(engine.client, context.settings.namespace, our_files=engine.shares_our_files)
    return decide(found, context.settings.project)


CHECKS = (Check("stack.leftovers", _left),)
