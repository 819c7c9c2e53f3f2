"""The model's weights, ready to be mounted: found, fetched, and converted where the engine reads another format."""

from __future__ import annotations

from typing import Any

import docker.errors
from docker.types import Mount

from harness import console, models
from harness.docker_engine import ROLE_LABEL
from harness.errors import ServiceFailed
from harness.models import ModelFiles
from harness.stack.plan import Plan

CONVERTER = "/opt/drydock/convert_gguf.py"


def fetch(plan: Plan, model: models.ModelPlan) -> ModelFiles:
    """Find or fetch the weights; what is here already costs a look and says nothing.

    Raises:
        DrydockError: no weights, and why; see :func:`harness.models.ensure_weights`.
    """
    with console.step(f"weights of {model.alias}", quiet_below=0.5) as step:
        files = models.ensure_weights(model, plan.settings.engine, plan.settings, step.update, uid=plan.uid)
        step.text = f"weights of {model.alias} ({files.origin})"
    return files


def convert(client: Any, plan: Plan, model: models.ModelPlan, files: ModelFiles, engine_image: str) -> ModelFiles:
    """Convert the weights where the engine reads another format; returns what is to be mounted.

    Raises:
        ServiceFailed: the converter gave up; carries its last lines.
    """
    if files.conversion is None:
        return files
    settings = plan.settings
    with console.step(f"converting {model.alias} to {files.format}"):
        try:
            python = "python3" if plan.gpus.inference else "/opt/engine/bin/python"
            _convert(client, engine_image, python, files.conversion)
        except BaseException:
            models.abandon_conversion(files)
            raise
        return models.finish_conversion(model, settings.engine, settings, files, uid=plan.uid)


def _convert(client: Any, image: str, python: str, work: models.Conversion) -> None:
    """Run the converter of the engine's image, without network, as the user who will own the result."""
    container = client.containers.create(
        image,
        entrypoint=[python, CONVERTER],
        command=["--gguf", "/in/model.gguf", "--out", "/out/model"],
        user=str(work.uid),
        network_mode="none",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges:true"],
        read_only=True,
        tmpfs={"/tmp": ""},
        labels={ROLE_LABEL: "converter"},
        mounts=[
            Mount("/in/model.gguf", str(work.source), type="bind", read_only=True),
            Mount("/out", str(work.target), type="bind"),
        ],
    )
    try:
        container.start()
        code = container.wait()["StatusCode"]
        if code != 0:
            raise ServiceFailed(
                f"The converter ended with exit code {code}.",
                consequence="The engine can't read this model's format.",
                mend="make up ENGINE=llamacpp   # reads it as it is",
                logs=container.logs(tail=20).decode("utf-8", "replace"),
            )
    finally:
        try:
            container.remove(force=True)
        except docker.errors.APIError:
            pass  # the daemon went away; the label tells `clean` what it is
