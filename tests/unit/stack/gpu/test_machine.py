"""What nvidia-smi and docker info say, read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.errors import ToolTooOld
from harness.stack.gpu.driver import driver_fits
from harness.stack.gpu.machine import Machine, cuda_missing, read_cuda, read_listing, way_of

LISTING = """\
0, GPU-6a1c, NVIDIA H100 80GB HBM3, 81559, 580.65.06
1, GPU-7b2d, NVIDIA H100 80GB HBM3, 81559, 580.65.06
"""
HEADER = "| NVIDIA-SMI 580.65.06    Driver Version: 580.65.06    CUDA Version: 13.0     |\n"


def test_cards_and_driver_are_read() -> None:
    gpus, driver = read_listing(LISTING)
    assert [(gpu.index, gpu.uuid, gpu.memory_mib) for gpu in gpus] == [
        ("0", "GPU-6a1c", 81559),
        ("1", "GPU-7b2d", 81559),
    ]
    assert driver == "580.65.06"
    assert read_cuda(HEADER) == "13.0"


@pytest.mark.parametrize("text", ["", "No devices were found\n", "0, GPU-1, NVIDIA A100, [N/A], 550\n", "a, b\n"])
def test_what_is_no_card_is_none(text: str) -> None:
    assert read_listing(text) == ((), "")


@pytest.mark.parametrize(
    ("info", "cdi", "way"),
    [
        ({"Runtimes": {"nvidia": {}, "runc": {}}, "ServerVersion": "20.10.24"}, [], "nvidia"),
        ({"Runtimes": {"runc": {}}, "ServerVersion": "28.2.2"}, [Path("/etc/cdi/nvidia.yaml")], "cdi"),
        ({"Runtimes": {"runc": {}}, "ServerVersion": "20.10.24+dfsg1"}, [Path("/etc/cdi/nvidia.yaml")], ""),
        ({"Runtimes": {"runc": {}}, "ServerVersion": "28.2.2"}, [], ""),
        ({}, [], ""),
    ],
)
def test_how_docker_hands_gpus_on(info: dict[str, object], cdi: list[Path], way: str) -> None:
    assert way_of(info, cdi) == way


@pytest.mark.parametrize(
    ("wanted", "driver_has", "missing"),
    [
        ("cuda>=12.9", "12.8", "12.9"),
        ("cuda>=12.9", "13.0", ""),
        ("cuda>=9.0", "12.8", ""),
        ("cuda>=12.9 brand=tesla,driver>=535,driver<536", "12.4", ""),
        ("", "12.4", ""),
        ("cuda>=12.9", "", ""),
    ],
)
def test_a_driver_too_old_for_an_image_is_found(wanted: str, driver_has: str, missing: str) -> None:
    assert cuda_missing({"NVIDIA_REQUIRE_CUDA": wanted}, Machine(cuda=driver_has)) == missing


def test_an_image_that_wants_more_than_the_driver_can_do_is_refused_by_its_name() -> None:
    wants = {"old:1": "cuda>=12.0", "new:1": "cuda>=13.1", "none:1": ""}
    client = SimpleNamespace(
        images=SimpleNamespace(
            get=lambda name: SimpleNamespace(attrs={"Config": {"Env": [f"NVIDIA_REQUIRE_CUDA={wants[name]}"]}})
        )
    )
    there = Machine(driver="580.65.06", cuda="13.0")
    driver_fits(client, there, ["old:1", "none:1"])
    with pytest.raises(ToolTooOld, match=r"new:1 wants CUDA 13\.1, and this machine's driver 580\.65\.06 can do 13\.0"):
        driver_fits(client, there, ["old:1", "new:1"])
