"""A torch job over two containers of another distribution, without Ray, py-spy and any right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness.settings import load_settings
from harness.stack.images import bootstrap
from harness.stack.images.catalogue import load_catalogue
from harness.stack.images.host_config import read_host_config
from tests.scenarios.hang_ways.conftest import PYTHON, Boxes, dump, mounted_torch
from tests.support.harness import Stack, docker, own_project

pytestmark = [pytest.mark.docker, pytest.mark.slow]

IMAGE = f"{own_project('trixie')}:test"


@pytest.fixture(scope="module")
def trixie(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Debian 13 with its own Python 3.13."""
    settings = load_settings({"project": own_project("trixie")})
    spec = replace(load_catalogue().base, suite="trixie", packages=("python3", "libstdc++6"))
    bootstrap.make_base(settings, spec, read_host_config(settings).apt, IMAGE, {})
    yield IMAGE
    docker("rmi", IMAGE)


def test_its_own_python_is_sampled(stack: Stack, boxes: Boxes, trixie: str) -> None:
    name = boxes.start("trixie", image=trixie)
    assert docker("exec", name, "python3", "--version").startswith("Python 3.13")
    seen = dump(stack, "--everything", CONTAINERS=name)
    assert "hold_on" in seen.stacks


def test_torchrun_over_two_containers(stack: Stack, network: str, boxes: Boxes, trixie: str) -> None:
    torch = mounted_torch()
    names = [
        boxes.begin(
            f"torchrun-{node}", "--network", network, *torch, trixie, PYTHON, "-m", "torch.distributed.run",
            "--nnodes=2", f"--node-rank={node}", "--nproc-per-node=2",
            f"--master-addr={own_project('torchrun-0')}", "--master-port=29500", "/program.py", "torch",
        )
        for node in (0, 1)
    ]  # fmt: skip
    for name in names:
        boxes.wait_ready(name, 240)
    seen = dump(stack, CONTAINERS=",".join(names))
    ranks = {entry["rank"]: entry["container"] for entry in seen.processes.values() if entry.get("role") == "rank"}
    assert ranks == {0: names[0], 1: names[0], 2: names[1], 3: names[1]}
    assert {entry["container"] for entry in seen.processes.values() if entry["role"] == "launcher"} == set(names)
    # The program branches on its rank, and so both names are right.
    assert {"collective-mismatch", "rank-conditional"} >= {seen.verdict["cause"], *seen.verdict["candidates"]}, (
        seen.verdict
    )
    assert seen.verdict["state"] == "hung"
    assert seen.verdict["laggards"] == ["rank0"]
