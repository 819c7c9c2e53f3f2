"""The sampler as one file that any Python runs: for nodes that have neither our wheel nor its requirements."""

from __future__ import annotations

import ast
import importlib.util
import io
import zipfile
from importlib import resources
from pathlib import Path


def build() -> bytes:
    """A Python archive: a request on standard input, the packed answer on standard output, its folder as argument.

    It holds what ``start`` imports of ours, and what that imports; on the way there, nothing but Python is needed.
    """
    own = resources.files(__name__)
    start = own.joinpath("start.py").read_bytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__main__.py", start)
        left, found = imported(start), {"harness"}
        while left:
            found |= left
            left = {name for module in left for name in imported(_source(module)[1])} - found
        for module in sorted(found):
            name, content = _source(module)
            archive.writestr(name, content)
    return buffer.getvalue()


def imported(source: bytes) -> set[str]:
    """Modules of ours that a source imports, with the packages that they lie in."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            # What is imported from a package may be a module of it.
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    ours = {name for name in names if name.partition(".")[0] == "harness" and _is_module(name)}
    return ours | {name.rpartition(".")[0] for name in ours if "." in name and name.count(".") > 1}


def _is_module(name: str) -> bool:
    package = name.rpartition(".")[0]
    return not package or (_is_package(package) and importlib.util.find_spec(name) is not None)


def _is_package(name: str) -> bool:
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.submodule_search_locations is not None


def _source(module: str) -> tuple[str, bytes]:
    """A module's place in the archive, and its text."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin)
    place = module.replace(".", "/") + ("/__init__.py" if path.name == "__init__.py" else ".py")
    return place, path.read_bytes()
