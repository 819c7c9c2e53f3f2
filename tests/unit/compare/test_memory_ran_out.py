"""That memory ran out is told in many words: by torch for a CPU, for a GPU, by safetensors, by Python."""

from __future__ import annotations

import pytest

from harness.compare.driver.told import of_memory
from harness.compare.reference import _too_big

SAID = (
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
        "allocate 31850496 bytes. Error code 12 (Cannot allocate memory)"
    ),
    RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    OSError("Cannot allocate memory (os error 12)"),
    MemoryError(),
)


@pytest.mark.parametrize("error", SAID)
def test_it_is_known_by_its_words(error: Exception) -> None:
    assert of_memory(error)
    assert not of_memory(RuntimeError("size mismatch"))


def test_while_scoring_fewer_tokens_at_a_time_may_do() -> None:
    assert "BATCH_TOKENS=" in _too_big("no memory", {"samples": [], "dtype": "float32"}).mend
    assert "BATCH_TOKENS=" not in _too_big("no memory", {"path": "x", "dtype": "float32"}).mend
