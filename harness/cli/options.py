"""Options that several verbs share, so that a flag is spelled and explained in one way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from harness.settings import settings_fields

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
