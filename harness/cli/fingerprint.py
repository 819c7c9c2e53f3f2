"""``harness fingerprint``: what the stack is made of, and what differs from a colleague's."""

from __future__ import annotations

from typing import Any

import click

from harness import console
from harness.cli.options import json_option, setting_option
from harness.settings import load_settings
from harness.stack import guard
from harness.stack.portrait import differences, gather, read


@click.command("fingerprint")
@setting_option("diff")
@json_option
def command(**flags: Any) -> int:
    """Show machine, Docker, images, packages, locks and weights; with --diff only what differs (exit code 1)."""
    settings = load_settings(flags)
    if settings.json_output:
        console.to_stderr()
    theirs = read(settings.diff) if settings.diff else None
    mine = gather(guard.docker_fit(), settings)
    if theirs is None:
        console.emit_json(mine) if settings.json_output else _show(mine)
        return 0
    found = differences(theirs, mine)
    if settings.json_output:
        rows = [{"what": what, "theirs": left, "mine": right} for what, left, right in found]
        console.emit_json({"exit_code": int(bool(found)), "differences": rows})
    elif found:
        console.table(["WHAT", "THEIRS", "MINE"], [list(row) for row in found])
    else:
        console.ok(f"nothing differs from {settings.diff}")
    return int(bool(found))


def _show(mine: dict[str, Any]) -> None:
    console.facts([[name, _line(mine[name])] for name in ("drydock", "machine", "gpus", "model", "settings")])
    for service, image in mine["images"].items():
        console.facts([[service, f"{image['reference']}  {image['id'][:19]}"]])
        for place, one in image.get("environments", {}).items():
            console.facts([["", f"{place}: Python {one['version']}, {len(one['packages'])} packages"]])
    console.line()
    console.note(
        "all of it, to compare with a colleague's: make fingerprint JSON=1 > FILE, then make fingerprint DIFF=FILE"
    )


def _line(value: dict[str, Any]) -> str:
    parts = []
    for name, inner in value.items():
        text = (
            f"{len(inner)} file{'s' if len(inner) != 1 else ''}"
            if name == "files"
            else " ".join(inner)
            if isinstance(inner, list) and all(isinstance(item, str) for item in inner)
            else str(inner)
        )
        # What isn't there is no property of this machine.
        if text not in ("", "None", "[]", "()", "False"):
            parts.append(text if name == "files" else f"{name} {text}")
    return ", ".join(parts) or "none"
