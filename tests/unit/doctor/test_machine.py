"""System, memory, shared memory and control groups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.doctor.findings import Finding
from harness.doctor.model import Model
from harness.doctor.topics.machine import (
    GB,
    Machine,
    cpu_flags,
    decide_kernel,
    decide_memory,
    decide_system,
    distribution,
    needed_memory,
)

GOOD = Machine(
    system="Linux",
    distribution="Debian GNU/Linux 12 (bookworm)",
    kernel="6.1.0",
    architecture="x86_64",
    python="3.11.2",
    container="",
    cores=8,
    memory_total=16 * GB,
    memory_free=12 * GB,
    shm=8 * GB,
    cgroup=2,
    cpu_flags=frozenset({"avx2"}),
)


def signs(findings: list[Finding]) -> list[str]:
    return [finding.sign for finding in findings]


def test_a_good_machine_is_fine() -> None:
    for findings in (decide_system(GOOD, "vllm"), decide_kernel(GOOD), decide_memory(GOOD, 4 * GB, running=False)):
        assert set(signs(findings)) == {"ok"}


def test_an_architecture_without_engines() -> None:
    finding = decide_system(replace(GOOD, architecture="riscv64"), "llamacpp")[0]
    assert finding.sign == "bad"
    assert "ENGINE=external" in finding.mend


def test_vllm_needs_avx2_and_others_do_not() -> None:
    old = replace(GOOD, cpu_flags=frozenset({"sse4_2"}))
    assert "bad" in signs(decide_system(old, "vllm"))
    assert "bad" not in signs(decide_system(old, "llamacpp"))
    assert "bad" not in signs(decide_system(replace(GOOD, cpu_flags=frozenset()), "vllm"))


def test_a_container_and_wsl_are_said() -> None:
    assert any("container (Docker)" in f.text for f in decide_system(replace(GOOD, container="Docker"), "llamacpp"))
    wsl = replace(GOOD, kernel="5.15.90.1-microsoft-standard-WSL2")
    assert any("WSL" in f.text for f in decide_system(wsl, "llamacpp"))


@pytest.mark.parametrize(
    ("total", "free", "running", "sign"),
    [
        (16, 12, False, "ok"),
        (16, 2, False, "warn"),
        (3, 2.5, False, "bad"),
        (16, 2, True, "ok"),
        (16, 0.3, True, "warn"),
    ],
)
def test_memory(total: float, free: float, running: bool, sign: str) -> None:
    machine = replace(GOOD, memory_total=int(total * GB), memory_free=int(free * GB))
    assert signs(decide_memory(machine, 4 * GB, running)) == [sign]


def test_weights_workers_and_engine_count_for_the_memory() -> None:
    small = needed_memory("llamacpp", Model("a", size=int(0.1 * GB)), 0)
    assert needed_memory("llamacpp", Model("a", size=8 * GB), 0) - small > 8 * GB
    assert needed_memory("vllm", Model("a"), 0) > needed_memory("llamacpp", Model("a"), 0)
    assert needed_memory("external", Model("a"), 2) > needed_memory("external", Model("a"), 0)


def test_shared_memory() -> None:
    assert signs(decide_kernel(replace(GOOD, shm=None)))[0] == "bad"
    small = decide_kernel(replace(GOOD, shm=64 * 1024**2, container="Docker"))[0]
    assert small.sign == "warn"
    assert "--shm-size" in small.mend


def test_control_groups() -> None:
    assert signs(decide_kernel(replace(GOOD, cgroup=None)))[1] == "bad"
    assert "version 1" in decide_kernel(replace(GOOD, cgroup=1))[1].text


def test_other_systems_are_not_asked_for_what_linux_has() -> None:
    assert decide_kernel(replace(GOOD, system="Darwin", shm=None, cgroup=None)) == []


def test_files_of_the_system_are_read() -> None:
    assert distribution('ID=ubuntu\nPRETTY_NAME="Ubuntu 24.04.1 LTS"\n') == "Ubuntu 24.04.1 LTS"
    assert distribution("") == ""
    assert cpu_flags("processor\t: 0\nflags\t\t: fpu avx2\n") == {"fpu", "avx2"}
