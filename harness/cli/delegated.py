"""Verbs about the cluster's processes run in ``dev``, in whose network these are."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence

import click

from harness.places import in_container
from harness.settings import Settings


def runs_in_dev() -> bool:
    """Whether such a verb, typed here, is one for the stack's ``dev`` container."""
    # A cluster that a person names is meant, whether or not our stack is up.
    named = os.environ.get("RAY_API_SERVER_ADDRESS") or os.environ.get("RAY_ADDRESS")
    # Docker's SDK isn't in the image.
    return not (in_container() or named or importlib.util.find_spec("docker") is None)


def hand_on(ctx: click.Context, settings: Settings, verb: str, passed_on: Sequence[str]) -> None:
    """Run the verb in ``dev`` and leave with its exit code; returns where it has to run here.

    Raises:
        StackDown: the stack isn't up, and no other cluster is named.
    """
    if not runs_in_dev():
        return
    from harness.stack.delegate import delegate

    ctx.exit(delegate(settings, verb, passed_on))
