"""The sampler as one file for nodes without our wheel: complete, and its models the same as ours."""

from __future__ import annotations

import ast
import importlib.util
import io
import sys
import zipfile
from types import ModuleType

import pytest

from harness.hang.ways.parcel import build, imported
from harness.processes.sampling import model
from harness.processes.sampling.model import NodeAnswer, ProcessEntry, SampleEntry, SampleRequest, pack, unpack

FILES = zipfile.ZipFile(io.BytesIO(build()))


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The models as they are within the parcel: on the stand-in."""
    stand_in = ModuleType("pydantic")
    exec(FILES.read("pydantic.py"), stand_in.__dict__)
    monkeypatch.setitem(sys.modules, "pydantic", stand_in)
    spec = importlib.util.spec_from_file_location("bare_model", model.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "bare_model", module)
    spec.loader.exec_module(module)
    return module


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
                assert top in sys.stdlib_module_names or top in ("harness", "pydantic"), f"{name} imports {module}"


def test_it_is_small() -> None:
    assert not [name for name in FILES.namelist() if name.startswith(("harness/hang", "harness/stack", "harness/cli"))]


def test_an_answer_that_it_packs_is_the_one_that_is_read_here(bare: ModuleType) -> None:
    answer = bare.NodeAnswer(host="node", dumps={"1.json": b"\xff\xfe?>"}, environment={"py_spy": "/x"})
    answer.processes.append(
        bare.ProcessEntry(pid=1, rank=3, samples=[bare.SampleEntry(file="1.json", cpu_seconds=0.5)])
    )
    answer.notes.append("n")
    assert unpack(bare.pack(answer)) == NodeAnswer(
        host="node",
        dumps={"1.json": b"\xff\xfe?>"},
        environment={"py_spy": "/x"},
        processes=[ProcessEntry(pid=1, rank=3, samples=[SampleEntry(file="1.json", cpu_seconds=0.5)])],
        notes=["n"],
    )


def test_a_request_reads_the_same(bare: ModuleType) -> None:
    request = SampleRequest(pids=[1, 2], match="x|y", samples=3, gap_seconds=0.5, locals=True, logs=["/a/*"])
    read = bare.SampleRequest.model_validate_json(request.model_dump_json())
    assert {name: getattr(read, name) for name in SampleRequest.model_fields} == request.model_dump()


@pytest.mark.parametrize("name", ["SampleEntry", "ProcessEntry", "SampleRequest", "NodeAnswer"])
def test_defaults_are_the_same_and_nobody_shares_them(bare: ModuleType, name: str) -> None:
    ours, theirs = getattr(model, name)(), getattr(bare, name)()
    assert {field: getattr(theirs, field) for field in type(ours).model_fields} == ours.model_dump()
    again = getattr(bare, name)()
    for field in type(ours).model_fields:
        value = getattr(theirs, field)
        assert not isinstance(value, (list, dict)) or value is not getattr(again, field)


def test_an_empty_answer_is_one(bare: ModuleType) -> None:
    assert unpack(bare.pack(bare.NodeAnswer())) == unpack(pack(NodeAnswer()))
