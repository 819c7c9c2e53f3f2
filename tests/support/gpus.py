"""Machines with GPUs that nobody here has."""

from __future__ import annotations

from harness.stack.gpu.machine import Gpu, Machine

MIB = 81559  # an H100's


def machine(count: int, memory_mib: int = MIB, cuda: str = "13.0") -> Machine:
    """A machine with so many equal cards; without any, one that has no driver either."""
    if not count:
        return Machine()
    cards = tuple(Gpu(str(n), f"GPU-{n}", "NVIDIA H100 80GB HBM3", memory_mib) for n in range(count))
    return Machine(cards, "580.65.06", cuda, "nvidia")
