"""The container of stage 4: like ``dev``, with AReaL or verl beside it; there for one check.

It is made from ``dev``'s own image and shares its network, its processes' numbers and its folders, so an agent finds
all that it finds in ``dev``, and `attach` and `hang-dump` reach the framework's workers. The framework is a virtual
environment in a volume, which is filled once from an image that holds nothing else: a change of the harness or of the
user's project costs nothing, and two gigabytes aren't copied for each. When the check has ended the container is
removed, and with it whatever the framework has left behind.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from harness import console, docker_engine
from harness.docker_engine import FOR_PROJECT_LABEL, PROJECT_LABEL, ROLE_LABEL, Container
from harness.settings import Settings
from harness.stack.images import ensure_framework_image

ROLE = "stage4"
MODEL_FOLDER = "DRYDOCK_MODEL_FOLDER"
# Frameworks put tensors of a batch there, Ray its objects, and workers talk through it.
_SHM = "2g"


@dataclass(frozen=True)
class Model:
    """Where the weights that the server serves lie.

    Attributes:
        source: on this machine.
        target: in the containers.
        path: the model's own folder there.
    """

    source: str
    target: str
    path: str


def has(client: Any, dev: Container, framework: str) -> bool:
    """Whether ``dev``'s own Python has the framework (``areal``, ``verl``), as its image has."""
    # By what is installed: a folder of that name in the workspace is not the framework.
    find = f"import importlib.metadata; importlib.metadata.version({framework!r})"
    code: int = client.containers.get(dev.id).exec_run(["/opt/venv/bin/python", "-I", "-c", find]).exit_code
    return code == 0


@contextlib.contextmanager
def beside_dev(client: Any, settings: Settings, dev: Container, framework: str) -> Iterator[Container]:
    """A running container of stage 4; removed afterwards, whatever happened.

    Raises:
        BuildFailed, BaseUnavailable, NoSpace: the framework's image can't be made.
    """
    remove_left(client, settings.project)
    volume, folder = _volume(client, settings, framework), f"/opt/{framework}"
    like = client.containers.get(dev.id)
    model = _model(client, settings)
    mounts = {volume: {"bind": folder, "mode": "ro"}}
    more = {f"{framework.upper()}_PYTHON": f"{folder}/bin/python"}
    if model is not None:
        mounts[model.source] = {"bind": model.target, "mode": "ro"}
        more[MODEL_FOLDER] = model.path
    made = client.containers.create(
        like.attrs["Image"],
        entrypoint=["/opt/drydock/entrypoint.sh"],
        command=["sleep", "infinity"],
        name=f"{settings.project}-stage4",
        user=like.attrs["Config"]["User"],
        working_dir="/workspace",
        environment=[*like.attrs["Config"]["Env"], *(f"{name}={value}" for name, value in more.items())],
        network_mode=f"container:{dev.id}",
        pid_mode=f"container:{dev.id}",
        volumes_from=[dev.id],
        volumes=mounts,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges:true"],
        shm_size=_SHM,
        # As much as `dev` may take, and on its own.
        mem_limit=like.attrs["HostConfig"]["Memory"],
        memswap_limit=like.attrs["HostConfig"]["MemorySwap"],
        nano_cpus=like.attrs["HostConfig"]["NanoCpus"],
        cpu_shares=like.attrs["HostConfig"]["CpuShares"],
        pids_limit=like.attrs["HostConfig"]["PidsLimit"] or -1,
        labels={ROLE_LABEL: ROLE, FOR_PROJECT_LABEL: settings.project},
    )
    try:
        made.start()
        yield replace(dev, id=made.id, name=made.name, service=ROLE)
    finally:
        made.remove(force=True)


def remove_left(client: Any, project: str) -> None:
    """Remove containers of stage 4 whose check was killed."""
    for one in client.containers.list(
        all=True, filters={"label": [f"{ROLE_LABEL}={ROLE}", f"{FOR_PROJECT_LABEL}={project}"]}
    ):
        with contextlib.suppress(Exception):
            one.remove(force=True)


def _volume(client: Any, settings: Settings, framework: str) -> str:
    """The volume with the framework's virtual environment, filled from its image where it isn't there yet."""
    image = ensure_framework_image(client, settings, framework)
    name = f"{settings.project}_{framework}-{image.reference.rpartition(':')[2]}"
    labels = {PROJECT_LABEL: settings.project, f"dev.drydock.{framework}": "filling"}
    for volume in client.volumes.list(filters={"label": f"{PROJECT_LABEL}={settings.project}"}):
        if volume.name.startswith(f"{settings.project}_{framework}-") and volume.name not in (name, f"{name}-whole"):
            with contextlib.suppress(Exception):  # a check that runs now still has it
                volume.remove()
    # The engine fills an empty volume from the image; one whose filling was cut off must not be taken for whole, so a
    # second, empty volume says that it is.
    there = {volume.name for volume in client.volumes.list(filters={"label": f"{PROJECT_LABEL}={settings.project}"})}
    if {name, f"{name}-whole"} <= there:
        return name
    if name in there:
        client.volumes.get(name).remove()
    with console.step(f"the volume with {framework}"):
        client.volumes.create(name, labels=labels)
        # Making the container copies the whole of it, and a busy disk takes its time.
        patient = docker_engine.connect(docker_engine.REMOVAL_SECONDS)
        filled = patient.containers.create(
            image.reference,
            command=["true"],
            volumes={name: {"bind": f"/opt/{framework}", "mode": "rw"}},
            labels={ROLE_LABEL: ROLE, FOR_PROJECT_LABEL: settings.project},
            network_mode="none",
        )
        filled.remove()
        client.volumes.create(f"{name}-whole", labels={PROJECT_LABEL: settings.project})
    return name


def _model(client: Any, settings: Settings) -> Model | None:
    """The served model's folder, as the inference container has it; None where the server is elsewhere."""
    for container in docker_engine.containers(client, settings.project):
        if container.service != "inference":
            continue
        attrs = client.containers.get(container.id).attrs
        told = dict(line.partition("=")[::2] for line in attrs["Config"]["Env"])
        path = told.get("MODEL_PATH", "")
        for mount in attrs["Mounts"]:
            if path and (path == mount["Destination"] or path.startswith(mount["Destination"] + "/")):
                return Model(mount["Source"], mount["Destination"], path)
    return None
