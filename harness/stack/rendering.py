"""From a plan to what Compose reads: a file of variables, and the list of Compose files."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from harness import engines
from harness.docker_engine import Compose
from harness.models import ModelFiles, configuration
from harness.models.sums import known_sums
from harness.places import home, write_whole
from harness.stack import samplers
from harness.stack.gpu.fit import fit, flags
from harness.stack.keys import last_written
from harness.stack.paths import relative_to_clone
from harness.stack.plan import Plan
from harness.stack.presets import environment
from harness.stack.ray_ports import told

# Name of the variable that holds what `write_told` writes.
TOLD = "DRYDOCK_STACK"


def variables(
    plan: Plan, *, dev_image: str, inference_image: str, served: ModelFiles | None, keys: Path
) -> dict[str, str]:
    """All variables of the Compose files, by name; none of them is a secret."""
    settings = plan.settings
    names = served.names if served else plan.asked_names
    values = {
        "COMPOSE_PROFILES": ",".join(_profiles(plan)),
        "DRYDOCK_UID": str(plan.uid),
        "DRYDOCK_GID": str(plan.gid),
        "DRYDOCK_DEV_IMAGE": dev_image,
        "DRYDOCK_WORKSPACE": str(settings.workspace),
        "DRYDOCK_RUNS": str(settings.runs_dir),
        "DRYDOCK_RUNS_SHOWN": relative_to_clone(settings.runs_dir),
        "DRYDOCK_WORKSPACE_SHOWN": relative_to_clone(settings.workspace),
        "DRYDOCK_SECRETS": str(keys),
        "DRYDOCK_SECRETS_WRITTEN": last_written(keys),
        "DRYDOCK_RAY_AUTH_MODE": "disabled" if settings.ray_auth == "off" else "token",
        "DRYDOCK_DASHBOARD_PORT": str(settings.dashboard_port),
        "DRYDOCK_WORKERS": str(settings.workers),
        "DRYDOCK_RAY_NODES": str(plan.ray_nodes),
        "DRYDOCK_OPENAI_BASE_URL": plan.server.container_url,
        "DRYDOCK_ANTHROPIC_BASE_URL": plan.server.anthropic_container_url,
        "DRYDOCK_DEVCONTAINER_FOLDER": str(_opened_folder(settings.workspace)),
        "DRYDOCK_SAMPLED": samplers.expected(plan.services),
        "DRYDOCK_MODEL_NAME": names[0] if names else "",
        "DRYDOCK_TOLD": str(told_file(plan).parent),
        **plan.limits.variables(),
        # Not read by Compose (see `write_told`); here, so that a change of it changes the stamp.
        TOLD: json.dumps(_for_reports(plan, dev_image, inference_image, served)),
    }
    if served is not None:
        values |= {
            "DRYDOCK_INFERENCE_IMAGE": inference_image,
            "DRYDOCK_ENGINE": settings.engine,
            "DRYDOCK_ENGINE_START": json.dumps(dataclasses.asdict(engines.load(settings.engine).start)),
            "DRYDOCK_PORT": str(settings.port),
            "DRYDOCK_MODEL_SOURCE": str(served.host_path),
            "DRYDOCK_MODEL_TARGET": served.mount_target,
            "DRYDOCK_MODEL_PATH": served.container_path,
            "DRYDOCK_MODEL_NAMES": json.dumps(list(served.names)),
            "DRYDOCK_CONTEXT": str(settings.context or engines.load(settings.engine).context or ""),
            "DRYDOCK_THREADS": str(settings.threads or ""),
            "DRYDOCK_ENGINE_ARGS": settings.engine_args,
        }
        if plan.gpus.inference:
            values |= _on_gpus(plan, served, inference_image)
    if plan.shared:
        values |= {
            "DRYDOCK_SHARE": settings.share,
            "DRYDOCK_PORT": str(settings.port),
            "DRYDOCK_RAY_PORT": str(plan.ports.control),
            **told("head", plan.ports),
        }
    if plan.server.relay_port is not None:
        values["DRYDOCK_RELAY_PORT"] = str(plan.server.relay_port)
        values["DRYDOCK_RELAY_TARGET"] = plan.server.relay_target
    if plan.debug:
        values["DRYDOCK_DEBUG_ENV"] = str(debug_file(plan))
        # Not read by Compose: a changed preset changes the stamp.
        values["DRYDOCK_DEBUG"] = json.dumps(environment(plan.debug))
    if plan.framework_target is not None:
        values |= {
            "DRYDOCK_FRAMEWORK_SRC": str(settings.framework_src),
            "DRYDOCK_FRAMEWORK_TARGET": plan.framework_target,
        }
    return values


def _for_reports(plan: Plan, dev_image: str, inference_image: str, served: ModelFiles | None) -> dict[str, Any]:
    """What a report from inside ``dev`` says of the stack, where neither Docker nor the weights can be asked."""
    images = {"dev": dev_image, "inference": inference_image if served else ""}
    # Not where they came from: the hub once and its cache ever after; another value makes another container.
    model = {"names": served.names[:1], "revision": served.revision, "files": known_sums(served)} if served else {}
    return {"engine": plan.settings.engine, "images": images, "model": model, "gpus": plan.gpus.why}


def _on_gpus(plan: Plan, served: ModelFiles, image: str) -> dict[str, str]:
    """What an engine on GPUs is told beyond what every engine is."""
    found = fit(
        plan.settings,
        plan.cards,
        shared=plan.gpus.shared,
        weights=served.size,
        model_context=served.context,
        config=configuration(served),
    )
    return {
        "DRYDOCK_CONTEXT": str(found.context),
        "DRYDOCK_ENGINE_GPU_ARGS": shlex.join(flags(plan.settings.engine, found)),
        "DRYDOCK_ENGINE_CACHE": f"{plan.settings.project}-engine-{image.rpartition(':')[2]}",
    }


def compose_for(plan: Plan) -> Compose:
    """Compose with the files that the plan needs."""
    files = [home() / "compose.yaml"]
    if plan.server.relay_port is not None:
        files.append(home() / "docker" / "compose" / "host-relay.yaml")
    if plan.shared:
        files.append(home() / "docker" / "compose" / "share.yaml")
    if plan.framework_target is not None:
        files.append(home() / "docker" / "compose" / "framework.yaml")
    if plan.gpus.any:
        files += [home() / "docker" / "compose" / "gpu.yaml", devices_file(plan)]
    if plan.debug:
        files.append(home() / "docker" / "compose" / "debug.yaml")
    return Compose(plan.settings.project, tuple(files), env_file(plan))


def devices_file(plan: Plan) -> Path:
    """The Compose file that says which service gets which GPUs: a list can't come from a variable."""
    return plan.settings.state_dir / "gpu-devices.yaml"


def write_devices(plan: Plan) -> None:
    """Write that file, where there are GPUs to share out."""
    if plan.gpus.any:
        text = "# Written by `make up`.\n" + yaml.safe_dump(devices(plan), sort_keys=False)
        write_whole(devices_file(plan), text)


def devices(plan: Plan) -> dict[str, Any]:
    """What is in that file. ``dev`` has the training's cards too, as a Ray node that offers none: drivers run there."""
    # All training cards are the head's: replicas of a worker can't have a share each.
    wanted = {"inference": plan.gpus.inference, "ray-head": plan.gpus.train, "dev": plan.gpus.train}
    return devices_of(
        {service: ids for service, ids in wanted.items() if ids and service in plan.services}, plan.gpu_way or "nvidia"
    )


def devices_of(services: Mapping[str, Sequence[str]], way: str) -> dict[str, Any]:
    """Compose's words for the cards of each service, by their numbers; ``way``: ``nvidia`` or ``cdi``."""
    named = {"nvidia": "{}", "cdi": "nvidia.com/gpu={}"}[way]
    capability = {"nvidia": "gpu", "cdi": "cdi"}[way]
    found = {}
    for service, ids in services.items():
        device = {"driver": way, "device_ids": [named.format(one) for one in ids], "capabilities": [capability]}
        found[service] = {"deploy": {"resources": {"reservations": {"devices": [device]}}}}
    return {"services": found}


def env_file(plan: Plan) -> Path:
    """The file of the Compose variables."""
    return plan.settings.state_dir / "compose.env"


def told_file(plan: Plan) -> Path:
    """The file in which ``dev`` reads what the stack is made of; its folder is mounted, so that it can be replaced."""
    return plan.settings.state_dir / "told" / "stack.json"


def write_told(plan: Plan, values: dict[str, str]) -> None:
    """Tell ``dev`` what the stack is made of, without making another container of it."""
    path = told_file(plan)
    write_whole(path, values[TOLD])
    # Whatever the umask: the containers' user has to read it.
    path.parent.chmod(0o755)
    path.chmod(0o644)


def debug_file(plan: Plan) -> Path:
    """The file of the variables that ``DEBUG`` sets in training containers."""
    return plan.settings.state_dir / "debug.env"


def write_env_file(path: Path, values: dict[str, str]) -> None:
    """Write the variables so that Compose reads back exactly these values; the file appears whole or not at all."""
    text = "# Written by `make up`; put your own settings into drydock.env.\n"
    text += "".join(f"{name}={_quoted(value)}\n" for name, value in values.items())
    write_whole(path, text)


def stamp(compose: Compose, values: dict[str, str]) -> str:
    """A digest of everything that Compose is given; equal stamps mean that `up` has nothing to change."""
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    for path in compose.files:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _opened_folder(workspace: Path) -> Path:
    """The folder that people open in their editor: their own project where `init` was there, else the clone."""
    return workspace if (workspace / ".devcontainer" / "devcontainer.json").is_file() else home()


def _profiles(plan: Plan) -> list[str]:
    profiles = []
    if "inference" in plan.services:
        profiles.append("inference")
    if "ray-worker" in plan.services:
        profiles.append("workers")
    return profiles


def _quoted(value: str) -> str:
    """A value in double quotes, in which Compose's reader would otherwise expand ``$`` and read escapes."""
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("$", "\\$"), ("\n", "\\n")):
        value = value.replace(plain, escaped)
    return f'"{value}"'
