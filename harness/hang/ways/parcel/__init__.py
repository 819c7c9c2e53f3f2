"""The sampler as one file that any Python runs: for nodes that have neither our wheel nor its requirements."""

from __future__ import annotations

import io
import zipfile
from importlib import resources

# The sampler and what it imports. Its one library is stood in for.
_PACKAGES = ("harness.processes", "harness.processes.sampling")
_ALONE = (("harness", "__init__.py"), ("harness", "hooks.py"))


def build() -> bytes:
    """A Python archive: a request on standard input, the packed answer on standard output, its folder as argument."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for package, name in _ALONE:
            archive.writestr(f"{package}/{name}", resources.files(package).joinpath(name).read_bytes())
        for package in _PACKAGES:
            for entry in resources.files(package).iterdir():
                if entry.name.endswith(".py"):
                    archive.writestr(f"{package.replace('.', '/')}/{entry.name}", entry.read_bytes())
        own = resources.files(__name__)
        archive.writestr("pydantic.py", own.joinpath("stand_in.py").read_bytes())
        archive.writestr("__main__.py", own.joinpath("start.py").read_bytes())
    return buffer.getvalue()
