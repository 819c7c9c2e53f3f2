"""Write down what a full `up` was asked and looked at, so that the next can be quick (``already`` reads it)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from harness.models import ModelFiles
from harness.places import home
from harness.settings import Settings, environment_name, environment_names, settings_fields
from harness.stack.already import RECORD, Record, asked, owner_of, watch
from harness.stack.images.user import find_user_project
from harness.stack.plan import Plan
from harness.stack.summary import rows


def write_record(plan: Plan, served: ModelFiles | None, names: tuple[str, ...]) -> None:
    """Keep the record of an `up` that ended well."""
    settings = plan.settings
    if any(settings.origin(field) == "flag" for field in settings_fields()):
        return  # flags aren't part of a record; the next plain `up` is asked something else
    if settings.json_output:
        return  # the short way has no answer in JSON
    variables = list(environment_names().values())
    Record(
        names=variables,
        asked=asked(variables, os.environ),
        watched=watch(_looked_at(plan, served)),
        owners={str(settings.workspace): owner_of(str(settings.workspace))},
        expected=plan.expected,
        notes=notes(settings),
        rows=rows(plan, names),
    ).write(settings.state_dir / RECORD)


def notes(settings: Settings) -> list[str]:
    """Settings that are not at their default, and where they came from."""
    changed = settings.changed()
    return [f"{environment_name(field)}={value} (from {settings.origin(field)})" for field, value in changed.items()]


def _looked_at(plan: Plan, served: ModelFiles | None) -> Iterator[Path]:
    clone = home()
    yield from (clone / name for name in ("compose.yaml", "pyproject.toml", "drydock.env", "docker", "harness"))
    # A requirements.txt that appears changes its folder; one that is there is among the project's own files.
    yield plan.settings.state_dir / "applied"
    project = find_user_project(plan.settings)
    if project is not None:
        yield from (entry.source for entry in project.counted if isinstance(entry.source, Path))
    for name in ("requirements.txt", "pyproject.toml", "setup.py"):
        yield plan.settings.workspace / name
    if served is not None:
        yield served.host_path
