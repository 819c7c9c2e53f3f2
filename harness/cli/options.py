"""Options that several verbs share, so that a flag is spelled and explained in one way."""

from __future__ import annotations

import click

json_option = click.option(
    "--json", "json_output", is_flag=True, default=None, help="Answer as one JSON document on standard output."
)
