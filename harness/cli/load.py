"""``harness load``: a stack that `harness save` put into one folder."""

from __future__ import annotations

from typing import Any

import click

from harness import console
from harness.cli.options import json_option, setting_option
from harness.errors import BadSetting
from harness.settings import load_settings
from harness.stack.loading import load, note_revision
from harness.stack.saved import read


@click.command("load")
@setting_option("from_folder")
@json_option
def command(**flags: Any) -> int:
    """Check a saved folder and bring its images and weights in; asks no network."""
    settings = load_settings(flags)
    if settings.json_output:
        console.to_stderr()
    if settings.from_folder is None:
        raise BadSetting("FROM= is missing.", mend="make load FROM=~/stick/drydock")
    saved_settings = read(settings.from_folder).settings
    asked = load_settings({**{name.lower(): value for name, value in saved_settings.items()}, **flags})
    done = load(asked, settings.from_folder)
    note_revision(asked, done.manifest)
    command = " ".join(["make up", *(f"{name}={value}" for name, value in saved_settings.items())])
    if settings.json_output:
        console.emit_json({"images": done.images, "files": done.files, "then": command, "exit_code": 0})
        return 0
    console.ok(f"{len(done.manifest.images)} images, {done.images} of them new; {done.files} new files of weights")
    console.mend(command)
    return 0
