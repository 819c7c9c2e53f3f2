"""Pattern C of the guide: ranks in three containers, and the network of one of them is cut."""

from __future__ import annotations

import pytest

from tests.scenarios.hang_ways.conftest import PYTHON, Boxes, dump, mounted_torch
from tests.support.hanging import wait_still
from tests.support.harness import Stack, docker, own_project

pytestmark = [pytest.mark.docker, pytest.mark.slow]


def test_a_cut_network_is_undecided_until_the_sizes_are_known(stack: Stack, network: str, boxes: Boxes) -> None:
    torch = mounted_torch()
    names = [
        boxes.begin(
            f"cut-{rank}", "--network", network, *torch,
            "--env", f"RANK={rank}", "--env", "WORLD_SIZE=3",
            "--env", f"MASTER_ADDR={own_project('cut-0')}", "--env", "MASTER_PORT=29500",
            boxes.image, PYTHON, "/program.py", "torch-steps",
        )
        for rank in range(3)
    ]  # fmt: skip
    for name in names:
        boxes.wait_ready(name, 240)
    docker("network", "disconnect", network, names[2])
    wait_still([int(docker("inspect", "--format", "{{.State.Pid}}", name)) for name in names])
    seen = dump(stack, CONTAINERS=",".join(names))
    assert seen.verdict["state"] == "hung", seen.verdict
    assert seen.verdict["confidence"] == "undecided"
    assert sorted(seen.verdict["candidates"]) == ["network", "size-mismatch"]
    assert seen.verdict["laggards"] == []
    assert len(seen.verdict["groups"]) == 1
    seen = dump(stack, CONTAINERS=",".join(names), LOCALS="1")
    calls = {entry.get("blocked_call") for entry in seen.processes.values()}
    assert calls == {"all_reduce(tensor=float32[1024])"}
    assert "network" in seen.verdict["candidates"]
    assert "size-mismatch" not in seen.verdict["candidates"]
