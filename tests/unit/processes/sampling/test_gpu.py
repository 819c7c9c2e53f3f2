"""What nvidia-smi answers, read; a machine without one, or with a broken one."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest

from harness.processes.sampling import gpu

GPUS = "GPU-a, 97\nGPU-b, 0\nGPU-c, [N/A]\n"
PROCESSES = "11, GPU-a\n12, GPU-b\n12, GPU-a\n13, GPU-c\n14, GPU-gone\n[N/A], GPU-a\nnonsense\n"


def test_a_process_has_the_busiest_of_its_gpus() -> None:
    assert gpu.busiest(GPUS, PROCESSES) == {11: 97.0, 12: 97.0}
    assert gpu.busiest(GPUS, "12, GPU-b\n") == {12: 0.0}
    assert gpu.busiest("", "") == {}


def test_a_machine_without_a_gpu_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("something was started"))
    assert gpu.utilisation() == {}


@pytest.mark.parametrize(
    "failure",
    [subprocess.TimeoutExpired("nvidia-smi", 5), subprocess.CalledProcessError(9, "nvidia-smi"), PermissionError()],
)
def test_a_driver_that_hangs_or_is_broken_costs_no_dump(monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise failure

    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(subprocess, "run", fail)
    assert gpu.utilisation() == {}
