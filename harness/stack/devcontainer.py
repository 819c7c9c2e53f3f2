"""What VS Code's "Reopen in Container" joins: the stack that runs, described by one Compose file without variables.

The editor runs `make dev-container` on this machine before it reads that file, finds the running ``dev`` container by
its labels and enters it; nothing is made anew, and closing the editor stops nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import docker_engine
from harness.errors import BadSetting
from harness.places import home, write_whole
from harness.settings import load_settings
from harness.stack import guard, observe, rendering
from harness.stack.already import fine
from harness.stack.status import asked_before, recall
from harness.stack.up import up

RENDERED = Path(".drydock") / "devcontainer" / "compose.yaml"
EXAMPLE = Path("examples") / ".vscode"


@dataclass(frozen=True)
class Written:
    """What :func:`init` did with one file.

    Attributes:
        kept: there was one already, with other content; it was left as it is.
        ours: where what would have been written lies then, to compare and merge.
    """

    path: Path
    kept: bool
    ours: Path | None = None


@dataclass(frozen=True)
class Prepared:
    """What :func:`prepare` did.

    Attributes:
        changed: the services that are new.
        described: the file for ``dockerComposeFile``.
        workspace: the folder that the editor will show.
    """

    changed: tuple[str, ...]
    described: Path
    workspace: Path


def prepare(flags: Mapping[str, Any]) -> Prepared:
    """Describe the stack that runs; one that doesn't run, or for another workspace, is brought up first.

    That is then asked for as the last `up` was, save for what this call sets: an editor that is opened is no reason
    to go back to another model.

    Raises:
        DrydockError: see :func:`harness.stack.up.up`.
    """
    settings = load_settings(flags)
    plan, _ = recall(settings)
    changed: tuple[str, ...] = ()
    client = guard.docker_fit()
    # What runs counts, not what was written down: the default workspace isn't.
    shown = docker_engine.mounted_at(client, settings.project, "dev", "/workspace")
    wanted = settings.workspace if settings.origin("workspace") != "default" else plan.settings.workspace
    is_shown = shown is not None and wanted.resolve() == Path(shown).resolve()
    if (settings.origin("workspace") != "default" and not is_shown) or not fine(observe.look(client, plan.expected)):
        # Into the environment, where the record of this `up` (remembering) sees them as well.
        os.environ.update({name: old for name, old in asked_before(settings).items() if not os.environ.get(name)})
        result = up(load_settings(flags))
        plan, changed = result.plan, result.changed
    text = rendering.compose_for(plan).run("config")
    path = home() / RENDERED
    write_whole(path, text)
    return Prepared(changed, path, plan.settings.workspace)


def init(folder: Path, launch: Callable[[str], str] = str) -> list[Written]:
    """Write into a user's own project what lets an editor open it in this clone's stack; nothing is overwritten.

    Args:
        launch: takes out of the clone's own launch configurations what isn't for another project.

    Raises:
        BadSetting: there is no such folder, or it may not be written to.
    """
    folder = folder.expanduser().resolve()
    if not folder.is_dir():
        raise BadSetting(f"DIR={folder} is no folder.", mend=f"mkdir -p {folder}   # then the same command again")
    files = {Path(".devcontainer") / "devcontainer.json": _for_project(folder)}
    for name in ("launch.json", "tasks.json"):
        text = (home() / EXAMPLE / name).read_text(encoding="utf-8")
        files[Path(".vscode") / name] = launch(text) if name == "launch.json" else text
    try:
        return [_write_new(folder / name, text) for name, text in files.items()]
    except OSError as error:
        raise BadSetting(f"{error.filename} can't be written: {error.strerror}.", mend=f"ls -ld {folder}") from None


def _for_project(folder: Path) -> str:
    """The clone's own devcontainer.json, with paths that hold in another folder."""
    config = json.loads((home() / "devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    config["name"] = f"{folder.name} (Drydock)"
    # Not a shell's line: a path may have anything in it.
    config["initializeCommand"] = ["make", "-C", str(home()), "dev-container", f"WORKSPACE={folder}"]
    config["dockerComposeFile"] = [str(home() / RENDERED)]
    return json.dumps(config, indent=2) + "\n"


def _write_new(path: Path, text: str) -> Written:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        if path.read_text(encoding="utf-8", errors="replace") == text:
            return Written(path, kept=False)
        ours = home() / RENDERED.parent / path.parent.parent.name / path.name
        write_whole(ours, text)
        return Written(path, kept=True, ours=ours)
    return Written(path, kept=False)
