"""An engine's flags on GPUs, as they follow from cards and model: parallelism, memory, context. Decides only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness import engines
from harness.errors import GpuUnfit
from harness.settings import Engine, Settings
from harness.stack.gpu.machine import Gpu

# Of a card's memory: alone on it, and beside a training.
ALONE, SHARED = 0.85, 0.4
# Activations, CUDA graphs and the libraries' own take this much beside weights and cache.
OVERHEAD_BYTES = 2 * 2**30
# More than this nobody needs to debug an agent, and it costs a long start.
MOST_CONTEXT = 32768
LEAST_CONTEXT = 1024
# Where a model's configuration doesn't say what a token costs.
UNKNOWN_CONTEXT = 8192


@dataclass(frozen=True)
class Fit:
    """How a model is laid over cards.

    Attributes:
        tensor, pipeline, data: their product is the number of cards used.
        memory: fraction of a card's memory that the engine may take.
        context: tokens that one request may have in all.
    """

    tensor: int
    pipeline: int
    data: int
    memory: float
    context: int


def fit(
    settings: Settings, gpus: tuple[Gpu, ...], *, shared: bool, weights: int, model_context: int | None, config: Any
) -> Fit:
    """Lay a model over the cards that it has.

    What isn't asked for: the fewest cards that hold the weights together (a power of two, as attention heads are),
    the rest as replicas; and as much context as the model has, memory allows and debugging needs.

    Args:
        gpus: those that serve.
        shared: whether a training is on the same cards.
        weights: bytes.
        model_context: tokens that the model can attend to, None where it doesn't say.
        config: the model's ``config.json`` as read, for what a token of context costs; or None.

    Raises:
        GpuUnfit: too few or too many cards for what was asked, or too little memory for the model.
    """
    count, memory = len(gpus), settings.memory_fraction or (SHARED if shared else ALONE)
    card = min(gpu.memory_mib for gpu in gpus) * 2**20
    room = int(card * memory) - OVERHEAD_BYTES
    pipeline = settings.pp or 1
    tensor = settings.tp or _fewest(weights, room, pipeline, settings.dp, count)
    if tensor * pipeline > count:
        raise GpuUnfit(
            f"One copy of the model takes {tensor * pipeline} cards (TP={tensor} × PP={pipeline}), and {count} serve.",
            mend=f"make up TP={_power(count)} PP=1   # or more cards: GPUS_INFERENCE=",
        )
    data = settings.dp or count // (tensor * pipeline)
    if tensor * pipeline * data != count:
        raise GpuUnfit(
            f"TP={tensor} × PP={pipeline} × DP={data} takes {tensor * pipeline * data} cards, and {count} serve.",
            mend="make up GPUS_INFERENCE=…   # as many as the product, or another TP=, PP= or DP=",
        )
    left = room * tensor * pipeline - weights
    if left <= 0:
        raise GpuUnfit(
            f"The weights ({weights / 2**30:.1f} GiB) don't fit: {tensor * pipeline} × {room / 2**30:.1f} GiB is free "
            f"for them (MEMORY_FRACTION={memory:g} of {card / 2**30:.0f} GiB a card).",
            mend="make up TP=2   # over more cards; or a smaller MODEL, or MEMORY_FRACTION=0.9 with nothing else there",
        )
    return Fit(tensor, pipeline, data, memory, settings.context or _context(left, model_context, config))


def flags(engine: Engine, found: Fit) -> list[str]:
    """The engine's flags for it, but for the context, which the gateway passes on from ``CONTEXT``."""
    on_gpu = engines.load(engine).gpu
    parts = {"tensor": found.tensor, "pipeline": found.pipeline, "data": found.data, "memory": f"{found.memory:g}"}
    return [word.format_map(parts) for word in on_gpu.flags] if on_gpu else []


def cost_of_a_token(config: Any) -> int | None:
    """Bytes of cache that one token takes over all layers, in 16 bits; None where the configuration doesn't say."""
    if not isinstance(config, dict):
        return None
    nested = config.get("text_config")
    text: dict[str, Any] = nested if isinstance(nested, dict) else config
    layers, heads = text.get("num_hidden_layers"), text.get("num_attention_heads")
    hidden, kv = text.get("hidden_size"), text.get("num_key_value_heads") or heads
    size = text.get("head_dim") or (hidden // heads if isinstance(hidden, int) and isinstance(heads, int) else None)
    if not (isinstance(layers, int) and isinstance(kv, int) and isinstance(size, int)) or min(layers, kv, size) < 1:
        return None
    return 2 * layers * kv * size * 2


def _context(left: int, model_context: int | None, config: Any) -> int:
    cost = cost_of_a_token(config)
    fits = left // cost if cost else UNKNOWN_CONTEXT
    most = min(model_context or MOST_CONTEXT, MOST_CONTEXT)
    if fits < min(LEAST_CONTEXT, most):
        raise GpuUnfit(
            f"Beside the weights there is room for {fits} tokens only.",
            mend="make up TP=2   # over more cards; or a smaller MODEL",
        )
    return int(min(fits, most))


def _fewest(weights: int, room: int, pipeline: int, data: int, count: int) -> int:
    """The fewest cards, as a power of two, that hold the weights and leave a fifth of the room for the cache."""
    if data:
        return max(1, count // (pipeline * data))
    tensor = 1
    while tensor * 2 * pipeline <= count and weights > 0.8 * room * tensor * pipeline:
        tensor *= 2
    return tensor


def _power(count: int) -> int:
    return 1 << (count.bit_length() - 1)
