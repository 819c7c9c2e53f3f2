"""What VS Code's "Reopen in Container" joins: the stack that runs, described by one Compose file without variables.

The editor runs `make dev-container` on this machine before it reads that file, finds the running ``dev`` container by
its labels and enters it; nothing is made anew, and closing the editor stops nothing.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import console, docker_engine
from harness.errors import BadSetting, StackOccupied
from harness.places import home, write_whole
from harness.settings import Settings, load_settings, settings_fields
from harness.stack import guard, observe, occupied, rendering
from harness.stack.already import fine
from harness.stack.occupied import Running
from harness.stack.plan import Plan
from harness.stack.status import asked_before, recall
from harness.stack.up import up

RENDERED = Path(".drydock") / "devcontainer" / "compose.yaml"
# The same for the folders of a stack with a name of its own, below its state.
OWN_RENDERED = Path("devcontainer.yaml")
ENTRIES = Path("devcontainer") / "vscode"
# What stands in entries for a folder in which no agent or no samples are seen.
NO_AGENT, NO_DATA = "FILE.py:CLASS", "FILE.jsonl"
_LISTED = 8


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


def prepare(flags: Mapping[str, Any], fill: Callable[[str, str], str]) -> Prepared:
    """Describe the stack that runs; one that doesn't run, or for another workspace, is brought up first.

    That is then asked for as the last `up` was, save for what this call sets: an editor that is opened is no reason
    to go back to another model.

    Args:
        fill: a launch.json with what is in ours, unless somebody has put something of theirs into it.

    Raises:
        StackOccupied: another folder is wanted, and something of the user's runs for the one that is there.
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
    other = settings.origin("workspace") != "default" and not is_shown
    if other and shown is not None:
        _may_end(occupied.look(client, settings.project), settings, Path(shown))
    if other or not fine(observe.look(client, plan.expected)):
        # Into the environment, where the record of this `up` (remembering) sees them as well.
        os.environ.update({name: old for name, old in asked_before(settings).items() if not os.environ.get(name)})
        result = up(load_settings(flags))
        plan, changed = result.plan, result.changed
    _give_sample_its_entries(plan, fill)
    text = rendering.compose_for(plan).run("config")
    path = home() / RENDERED
    write_whole(path, text)
    write_whole(settings.state_dir / OWN_RENDERED, text)
    return Prepared(changed, path, plan.settings.workspace)


def _give_sample_its_entries(plan: Plan, fill: Callable[[str, str], str]) -> None:
    """The sample's own launch configurations and tasks. Not in Git, since `attach` and people write into them."""
    folder = home() / "examples"
    if plan.settings.workspace.resolve() != folder.resolve():
        return
    try:
        for name in ("launch.json", "tasks.json"):
            path, ours = folder / ".vscode" / name, (home() / ENTRIES / name).read_text(encoding="utf-8")
            before = path.read_text(encoding="utf-8") if path.exists() else ""
            after = fill(before, ours) if name == "launch.json" else before or ours
            if after != before:
                write_whole(path, after)
                if os.geteuid() == 0:  # `attach` in the container writes there as well
                    os.chown(path.parent, plan.uid, plan.gid)
                    os.chown(path, plan.uid, plan.gid)
    except (OSError, ValueError) as error:
        console.warn(f"{folder / '.vscode'} has no entries of Drydock: {error}")


def _may_end(running: Sequence[Running], settings: Settings, shown: Path) -> None:
    """Refuse to change the workspace under what runs; told that it may end (``DRYDOCK_YES``), say what ends."""
    if not running:
        return
    several = "\n  ".join(map(str, running[:_LISTED])) + ("\n  …" if len(running) > _LISTED else "")
    if settings.yes:
        console.warn(f"ends with the workspace {shown}:\n  {several}")
        return
    project = f" PROJECT={settings.project}" if settings.origin("project") != "default" else ""
    raise StackOccupied(
        f"Opening {settings.workspace} would end what runs in the stack `{settings.project}`:\n  {several}",
        consequence=f"Its containers show {shown}; to show another folder they are made anew. Nothing was changed.",
        mend=f"make -C {shlex.quote(str(home()))} dev-container{project} "
        f"WORKSPACE={shlex.quote(str(settings.workspace))} DRYDOCK_YES=1   # ends that; then open the folder again\n"
        "or wait until it has ended; or give that folder a second stack: make init with PROJECT=, PORT= and "
        "DASHBOARD_PORT=",
    )


def init(
    folder: Path,
    launch: Callable[[str], str] = str,
    stack: Mapping[str, str] | None = None,
    *,
    agent: str = "",
    data: str = "",
) -> list[Written]:
    """Write into a user's own project what lets an editor open it in this clone's stack; nothing is overwritten.

    Args:
        launch: takes out of the clone's own launch configurations what isn't for another project.
        stack: settings that say which stack it is, by their names in the environment, without those at their default.
        agent, data: what entries and tasks suggest; "" for a word in its place that is none.

    Raises:
        BadSetting: there is no such folder, or it may not be written to.
    """
    folder = folder.expanduser().resolve()
    if not folder.is_dir():
        raise BadSetting(f"DIR={folder} is no folder.", mend=f"mkdir -p {folder}   # then the same command again")
    files = {Path(".devcontainer") / "devcontainer.json": _for_project(folder, stack or {})}
    for name in ("launch.json", "tasks.json"):
        text = (home() / ENTRIES / name).read_text(encoding="utf-8")
        for ours, theirs in ((_field_default("agent"), agent or NO_AGENT), (_field_default("data"), data or NO_DATA)):
            text = text.replace(json.dumps(ours), json.dumps(theirs))
        files[Path(".vscode") / name] = launch(text) if name == "launch.json" else text
    try:
        return [_write_new(folder / name, text) for name, text in files.items()]
    except OSError as error:
        raise BadSetting(f"{error.filename} can't be written: {error.strerror}.", mend=f"ls -ld {folder}") from None


def _field_default(name: str) -> str:
    return str(settings_fields()[name].default)


def _for_project(folder: Path, stack: Mapping[str, str]) -> str:
    """The clone's own devcontainer.json, with paths that hold in another folder."""
    config = json.loads((home() / "devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    config["name"] = f"{folder.name} (Drydock)"
    # Not a shell's line: a path may have anything in it.
    which = [f"{name}={value}" for name, value in stack.items()]
    config["initializeCommand"] = ["make", "-C", str(home()), "dev-container", f"WORKSPACE={folder}", *which]
    project = stack.get("PROJECT")
    described = home() / ".drydock" / project / OWN_RENDERED if project else home() / RENDERED
    config["dockerComposeFile"] = [str(described)]
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
