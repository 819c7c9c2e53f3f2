"""``harness lock``: resolve every image that may be pulled, and write down its digest."""

from __future__ import annotations

import datetime
from typing import Any

import click

from harness import console
from harness.cli.options import json_option, setting_option
from harness.settings import load_settings
from harness.stack import guard
from harness.stack.images.catalogue import load_catalogue
from harness.stack.images.lock import lock_path, write_lock
from harness.stack.locking import Locking, ask_all, compare, wanted_images

_SHOWN = {"unchanged": console.ok, "confirmed": console.ok, "new": console.ok, "moved": console.warn}


@click.command("lock")
@setting_option("update")
@setting_option("framework")
@setting_option("image_mirror")
@json_option
def command(**flags: Any) -> int:
    """Ask the registries what every image is now; without --update only say what would change."""
    settings = load_settings(flags)
    if settings.json_output:
        console.to_stderr()
    guard.docker_fit()
    catalogue = load_catalogue()
    images = wanted_images(catalogue, settings)
    with console.step(f"asking registries for {len(images)} images"):
        asked = ask_all(images, catalogue.lock, settings.image_mirror)
    found = compare(catalogue.lock, asked, update=settings.update, today=datetime.date.today().isoformat())
    written = found.lock != catalogue.lock
    if written:
        write_lock(lock_path(catalogue.root), found.lock)
    if settings.json_output:
        rows = [row.as_dict() for row in found.rows]
        console.emit_json({"written": written, "exit_code": found.exit_code, "images": rows})
    else:
        _show(found, written, settings.update)
    return found.exit_code


def _show(found: Locking, written: bool, update: bool) -> None:
    for row in found.rows:
        _SHOWN.get(row.outcome, console.bad)(f"{row.image}: {row.outcome}{f' ({row.note})' if row.note else ''}")
        if row.old and row.new and row.old != row.new:
            console.note(f"{row.old} → {row.new}")
    console.line()
    console.note("docker/images.lock was written" if written else "docker/images.lock is as it was")
    outcomes = {row.outcome for row in found.rows}
    if "moved" in outcomes and not update:
        console.mend("make lock UPDATE=1   # takes what has moved; then make up, make check, and commit the lock")
    if "not asked" in outcomes:
        console.mend(
            "make lock IMAGE_MIRROR=HOST/PATH   # a mirror that this machine reaches; make doctor TOPIC=network"
        )
