"""How a model is laid over cards, and the flags that follow."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import GpuUnfit
from harness.settings import load_settings
from harness.stack.gpu.fit import ALONE, SHARED, Fit, cost_of_a_token, fit, flags
from tests.support.gpus import machine

GIB = 2**30
# Qwen2.5-0.5B: 24 layers, 2 key-value heads of 64.
QWEN = {"num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "hidden_size": 896}
LLAMA_70B = {"num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "hidden_size": 8192}


def laid(
    count: int, weights: float, config: Any = QWEN, *, memory_mib: int = 81559, shared: bool = False, **environ: Any
) -> Fit:
    gpus = machine(count, memory_mib).gpus
    settings = load_settings(environ=environ)
    return fit(settings, gpus, shared=shared, weights=int(weights * GIB), model_context=131072, config=config)


@pytest.mark.parametrize(
    ("count", "weights", "environ", "expected"),
    [
        (1, 1, {}, (1, 1, 1)),
        (4, 1, {}, (1, 1, 4)),
        (4, 140, {}, (4, 1, 1)),
        (8, 65, {}, (2, 1, 4)),
        (8, 1, {"TP": "2"}, (2, 1, 4)),
        (8, 1, {"TP": "2", "PP": "2"}, (2, 2, 2)),
        (8, 1, {"DP": "2"}, (4, 1, 2)),
        (3, 1, {}, (1, 1, 3)),
    ],
)
def test_a_small_model_is_copied_and_a_large_one_is_split(
    count: int, weights: float, environ: dict[str, Any], expected: tuple[int, int, int]
) -> None:
    found = laid(count, weights, **environ)
    assert (found.tensor, found.pipeline, found.data) == expected


def test_beside_a_training_an_engine_takes_less() -> None:
    assert laid(1, 1).memory == ALONE
    assert laid(1, 1, shared=True).memory == SHARED
    assert laid(1, 1, shared=True, MEMORY_FRACTION="0.7").memory == 0.7


def test_the_context_fits_the_card_and_is_never_more_than_needed() -> None:
    assert laid(1, 1).context == 32768
    assert laid(1, 1, CONTEXT="4096").context == 4096
    # 24 GiB · 0.85 - 2 GiB - 15 GiB of weights leave 3.4 GiB at 320 KiB a token.
    assert 10_000 < laid(1, 15, LLAMA_70B, memory_mib=24576).context < 12_000
    assert laid(1, 1, None).context == 8192


@pytest.mark.parametrize(
    ("count", "weights", "environ", "says"),
    [
        (2, 1, {"TP": "4"}, "takes 4 cards"),
        (4, 1, {"TP": "2", "PP": "4"}, "takes 8 cards"),
        (4, 1, {"TP": "2", "DP": "4"}, "takes 8 cards, and 4 serve"),
        (3, 1, {"TP": "2"}, "takes 2 cards, and 3 serve"),
        (1, 140, {}, "don't fit"),
        (1, 65.5, {}, "room for"),
    ],
)
def test_what_does_not_fit_is_refused(count: int, weights: float, environ: dict[str, Any], says: str) -> None:
    with pytest.raises(GpuUnfit, match=says):
        laid(count, weights, LLAMA_70B, **environ)


def test_a_token_costs_what_its_cache_takes() -> None:
    assert cost_of_a_token(LLAMA_70B) == 320 * 1024
    assert cost_of_a_token({"text_config": QWEN}) == 12 * 1024
    assert cost_of_a_token({"num_hidden_layers": "many"}) is None
    assert cost_of_a_token(None) is None


def test_each_engine_is_told_in_its_own_words() -> None:
    found = Fit(2, 1, 4, 0.85, 8192)
    assert flags("vllm", found)[:2] == ["--tensor-parallel-size", "2"]
    assert flags("sglang", found)[:2] == ["--tp-size", "2"]
