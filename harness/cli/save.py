"""``harness save``: the stack in one folder, for a machine without a network."""

from __future__ import annotations

from typing import Any

import click

from harness import console
from harness.cli.options import json_option, setting_option
from harness.errors import BadSetting
from harness.settings import load_settings
from harness.stack.saving import save, settings_names


@click.command("save")
@setting_option("out")
@setting_option("model")
@setting_option("engine")
@setting_option("framework")
@json_option
def command(**flags: Any) -> int:
    """Write images, weights, wheels and this clone into a new folder, with checksums."""
    settings = load_settings(flags)
    if settings.json_output:
        console.to_stderr()
    if settings.out is None:
        raise BadSetting("OUT= is missing.", mend="make save OUT=~/stick/drydock")
    done = save(settings, settings.out)
    if settings.json_output:
        console.emit_json({"folder": str(done.folder), "bytes": done.size, "left_out": done.left_out, "exit_code": 0})
        return 0
    console.ok(f"{done.folder}: {done.size / 1e9:.2f} GB, {done.images} images")
    for sentence in done.left_out:
        console.warn(f"left out: {sentence}")
    console.mend(
        f"make load FROM={done.folder}   # on the other machine; README.txt in it says all that is to be typed"
    )
    again = " ".join(f"{name}={value}" for name, value in settings_names(settings).items())
    console.mend(f"make up check {again}".rstrip() + "   # then")
    return 0
