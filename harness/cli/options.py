"""Options that several verbs share, so that a flag is spelled and explained in one way."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

from harness.places import home, in_container
from harness.settings import environment_names, settings_fields

json_option = click.option(
    "--json", "json_output", is_flag=True, default=None, help="Answer as one JSON document on standard output."
)


def setting_option(field: str) -> Callable[[Any], Any]:
    """A flag for a setting; its help is the setting's description, its default is left to the settings."""
    own = settings_fields()[field]
    description = own.metadata["description"]
    if own.type is bool:
        return click.option(f"--{field.replace('_', '-')}", field, is_flag=True, default=None, help=description)
    return click.option(f"--{field.replace('_', '-')}", field, default=None, help=description)


def as_typed_here(command: str) -> str:
    """A command of make's as it is typed where there is no Makefile: ``make hang-dump GAP=9`` with a flag for each."""
    if in_container() or (home() / "Makefile").is_file():
        return command
    return re.sub(r"make ([a-z-]+)((?: [A-Z_]+=\S+)*)", lambda match: f"harness {match[1]}{_flags(match[2])}", command)


def _flags(assignments: str) -> str:
    names = {name: field for field, name in environment_names().items()}
    text = ""
    for assignment in assignments.split():
        name, _, value = assignment.partition("=")
        field = names.get(name, name.lower())
        is_switch = field in settings_fields() and settings_fields()[field].type is bool
        text += f" --{field.replace('_', '-')}" + ("" if is_switch else f" {value}")
    return text
