"""The sampler as one file for nodes without our wheel: complete, and it runs."""

from __future__ import annotations

import ast
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from harness.hang.ways.parcel import build, imported
from harness.processes.sampling.model import SampleRequest, plain, unpack

FILES = zipfile.ZipFile(io.BytesIO(build()))
# What others have written is read by whoever asked; there, pydantic checks it.
CHECKS = "harness/processes/sampling/model.py"


def test_it_imports_nothing_that_is_not_in_it_or_in_python() -> None:
    inside = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in FILES.namelist()}
    assert "harness.processes.sampling.take" in inside
    for name in FILES.namelist():
        source = FILES.read(name)
        assert imported(source) <= inside
        for node in ast.walk(ast.parse(source)):
            tops = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            tops += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for module in tops:
                top = module.partition(".")[0]
                assert top in sys.stdlib_module_names or top == "harness" or (top, name) == ("pydantic", CHECKS), (
                    f"{name} imports {module}"
                )


def test_it_is_small() -> None:
    assert not [name for name in FILES.namelist() if name.startswith(("harness/hang", "harness/stack", "harness/cli"))]


def test_it_samples_with_nothing_but_what_is_in_it(tmp_path: Path) -> None:
    with FILES as archive:
        archive.extractall(tmp_path)
    request = SampleRequest(pids=[os.getpid()], samples=1, gap_seconds=0.5, logs=["/a/*"])
    # Without site-packages, and so without pydantic and anything of ours.
    done = subprocess.run(
        [sys.executable, "-E", "-S", str(tmp_path / "__main__.py"), str(tmp_path)],
        input=json.dumps(plain(request)).encode(), capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    answer = unpack(done.stdout)
    assert [entry.pid for entry in answer.processes if entry.pid == os.getpid()] == [os.getpid()]
    assert answer.notes[0].startswith("LOGS=/a/*")
    assert not tmp_path.exists()
