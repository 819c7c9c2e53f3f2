"""What goes into a report, each with a time limit: what hangs or fails is left out, and named.

Nothing here needs Docker, a network or privileges; what isn't there is one line in the list of what was left out.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.doctor.bundle import run_files
from harness.doctor.bundle.choosing import FILE_BYTES, LeftOut, choose
from harness.doctor.context import Context
from harness.errors import DrydockError
from harness.processes.crowding import patience
from harness.settings import Settings, environment_names

# File name to its text.
Files = dict[str, str]
SECONDS = 20.0
LOG_LINES = 2000
# Of a container's inspection: how it is and what it was made from; no environment, no command line.
_STATE = ("Status", "ExitCode", "OOMKilled", "Error", "StartedAt", "FinishedAt", "Health")


@dataclass(frozen=True)
class Gathered:
    """What one source gave."""

    files: Files
    left: tuple[LeftOut, ...] = ()
    finished: bool = True


@dataclass(frozen=True)
class Source:
    """Somewhere that something is gathered from; ``name`` is said where that fails."""

    name: str
    gather: Callable[[Context], Gathered]


def gather(context: Context, doctor: Callable[[], Mapping[str, Any]]) -> list[Gathered]:
    """Everything, side by side.

    Args:
        doctor: runs the doctor; returns its document.
    """
    sources = [
        Source("doctor.json", lambda _: Gathered({"doctor.json": _json(doctor())})),
        Source("settings.json", lambda found: Gathered({"settings.json": _json(settings_rows(found.settings))})),
        Source("packages.json", _packages),
        Source("fingerprint.json", _fingerprint),
        Source("containers", _containers),
        Source("logs of Drydock", _own_logs),
        Source("runs", _runs),
    ]
    return list(_side_by_side(sources, context, SECONDS * patience()))


def _side_by_side(sources: list[Source], context: Context, seconds: float) -> Iterator[Gathered]:
    results: dict[str, Gathered] = {}

    def put(source: Source) -> None:
        try:
            results[source.name] = source.gather(context)
        except DrydockError as error:
            results[source.name] = Gathered({}, (LeftOut(source.name, error.what),))
        except Exception as error:  # noqa: BLE001  # one source must not cost the others
            results[source.name] = Gathered({}, (LeftOut(source.name, f"{type(error).__name__}: {error}"),))

    threads = [threading.Thread(target=put, args=(source,), daemon=True) for source in sources]
    for thread in threads:
        thread.start()
    for source, thread in zip(sources, threads, strict=True):
        thread.join(seconds)
        late = Gathered({}, (LeftOut(source.name, f"no answer within {seconds:.0f} s"),), finished=False)
        yield results.get(source.name, late)


def settings_rows(settings: Settings) -> list[dict[str, str]]:
    """The settings as `make settings` shows them; secrets are starred there."""
    return [
        {"name": name, "value": settings.shown(field), "origin": settings.origin(field)}
        for field, name in environment_names().items()
    ]


def _packages(context: Context) -> Gathered:  # noqa: ARG001
    from harness.runs.environment import of_this_process

    return Gathered({"packages.json": _json(of_this_process())})


def _fingerprint(context: Context) -> Gathered:
    if context.engine().problem is not None:
        return Gathered({}, (LeftOut("fingerprint.json", "the Docker engine can't be asked"),))
    from harness.stack.portrait import gather as portrait

    client = context.engine().client
    return Gathered({"fingerprint.json": _json(portrait(client, context.settings, read_weights=False))})


def _containers(context: Context) -> Gathered:
    if context.engine().problem is not None:
        return Gathered({}, (LeftOut("containers", "the Docker engine can't be asked"),))
    from harness.docker_engine import FOR_PROJECT_LABEL, PROJECT_LABEL, log_tail

    client, project = context.engine().client, context.settings.project
    found = {}
    for label in (PROJECT_LABEL, FOR_PROJECT_LABEL):
        for one in client.containers.list(all=True, filters={"label": f"{label}={project}"}, ignore_removed=True):
            found[one.name] = one
    if not found:
        return Gathered({}, (LeftOut("containers", f"the stack `{project}` has none"),))
    files = {"containers.json": _json([summary(one.attrs) for _, one in sorted(found.items())])}
    for name, one in sorted(found.items()):
        files[f"containers/{name}.log"] = log_tail(client, one.id, LOG_LINES)[-FILE_BYTES:]
    return Gathered(files)


def summary(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """A container's state, image, mounts and ports. No environment: that is where people put keys."""
    state, config = attrs.get("State") or {}, attrs.get("Config") or {}
    host = attrs.get("HostConfig") or {}
    return {
        "name": str(attrs.get("Name", "")).lstrip("/"),
        "image": config.get("Image"),
        "image_id": attrs.get("Image"),
        "created": attrs.get("Created"),
        "state": {name: state[name] for name in _STATE if name in state},
        "restarts": attrs.get("RestartCount"),
        "user": config.get("User"),
        "limits": {name: host.get(name) for name in ("Memory", "NanoCpus", "PidsLimit", "ShmSize")},
        "mounts": [
            {name: mount.get(name) for name in ("Type", "Source", "Destination", "RW")}
            for mount in attrs.get("Mounts") or []
        ],
        "ports": (attrs.get("NetworkSettings") or {}).get("Ports") or {},
    }


def _own_logs(context: Context) -> Gathered:
    """The tracebacks and builds that this clone has kept, and what the last `up` was asked for."""
    folder = context.clone / ".drydock"
    wanted = [folder / "harness.log", folder / "bootstrap.log", context.settings.state_dir / "up.json"]
    wanted += sorted((context.settings.state_dir / "builds").glob("*.log"), key=lambda path: path.stat().st_mtime)[-6:]
    files = {}
    for path in wanted:
        text = run_files.read(path.parent, path.name, FILE_BYTES)
        if text:
            files[f"drydock/{path.name}"] = text.decode("utf-8", "replace")
    return Gathered(files)


def _runs(context: Context) -> Gathered:
    root = context.settings.runs_dir
    chosen, left = choose(run_files.candidates(root, run_files.newest(root)))
    files: Files = {}
    for one in chosen:
        content = run_files.read(root, one.name, one.most)
        if content is None or b"\0" in content:
            reason = "not a text" if content else "it can't be read, or isn't a plain file"
            left.append(LeftOut(f"runs/{one.name}", reason))
            continue
        files[f"runs/{one.name}"] = content.decode("utf-8", "replace")
    left = [LeftOut(one.name if one.name.startswith("runs/") else f"runs/{one.name}", one.reason) for one in left]
    return Gathered(files, tuple(left))


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n"


def home_folder() -> str:
    """This user's home folder, "" where it has none."""
    return os.environ.get("HOME", "") if Path(os.environ.get("HOME", "")).is_absolute() else ""
