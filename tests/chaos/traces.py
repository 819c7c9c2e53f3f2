"""What a broken-off verb may have left: files that are half written, containers, networks, processes."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

from tests.support.harness import docker

# Ours, and meant to be there: a lock has no content, the others are links.
_NO_RESULTS = {".gitignore", "lock"}


def half_written(root: Path) -> list[str]:
    """Files below a folder that aren't whole, and files that were on their way to be one."""
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return [f"{path.relative_to(root)}: {what}" for path in files for what in _faults(path)]


def _faults(path: Path) -> Iterator[str]:
    if path.name in _NO_RESULTS:
        return
    if path.name.startswith("."):
        yield "left over from writing"
        return
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            json.loads(text)
        elif path.suffix == ".jsonl" and (path.parent / "result.json").exists():
            # What is still being written may end in half a line; what has a result may not.
            for line in text.splitlines():
                json.loads(line)
        elif path.suffix == ".xml":
            ElementTree.fromstring(text)
        elif path.suffix == ".html" and not text.rstrip().endswith("</html>"):
            yield "ends before its end"
    except (ValueError, ElementTree.ParseError) as error:
        yield str(error)


def ours(project: str) -> list[str]:
    """Containers and networks of a project that are still there; ``down`` leaves none of them."""
    found: list[str] = []
    for label in (f"com.docker.compose.project={project}", f"dev.drydock.project={project}"):
        rows = docker("ps", "--all", "--filter", f"label={label}", "--format", "container {{.Names}} {{.Status}}")
        found += rows.splitlines()
        found += docker("network", "ls", "--filter", f"label={label}", "--format", "network {{.Name}}").splitlines()
    return sorted(set(found))


def volumes(project: str) -> list[str]:
    """The project's volumes, which ``down`` keeps."""
    return docker("volume", "ls", "--quiet", "--filter", f"label=com.docker.compose.project={project}").split()
