"""Outputs of the trainer's model itself, for the task's accuracy on both sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from .scoring import batches

# Tokens that a batch may hold in the cache of keys and values, in forward passes' worth of tokens.
_CACHED = 4


def generate(model: Any, samples: Sequence[dict[str, Any]], sampling: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One answer a sample, in batches whose caches are bounded.

    Args:
        samples: ``id``, ``prompt`` (token ids) and ``max_tokens``.
        sampling: ``temperature`` (0: the most likely token each time), ``top_p``, ``top_k`` (0: off), ``seed``.

    Yields:
        ``id`` and ``output`` (token ids, with the one that ended it).
    """
    from transformers import GenerationConfig

    stops = _stops(model)
    drawn = sampling["temperature"] > 0
    how = {name: sampling[name] for name in ("temperature", "top_p", "top_k")} if drawn else {}
    torch.manual_seed(sampling.get("seed") or 0)
    kept = model.module.generation_config
    try:
        for batch in batches(samples, _CACHED * model.batch_tokens, lambda one: len(one["prompt"]) + one["max_tokens"]):
            # What a model's own configuration adds (penalties, say) is not what was asked for.
            model.module.generation_config = GenerationConfig(
                max_new_tokens=max(one["max_tokens"] for one in batch), do_sample=drawn, eos_token_id=stops or None,
                pad_token_id=model.pad, **how,
            )  # fmt: skip
            for one, output in zip(batch, _outputs(model, [one["prompt"] for one in batch]), strict=True):
                yield {"id": one["id"], "output": _until(output[: one["max_tokens"]], stops)}
    finally:
        model.module.generation_config = kept


def _outputs(model: Any, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
    longest = max(len(prompt) for prompt in prompts)
    ids = torch.full((len(prompts), longest), model.pad, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for number, prompt in enumerate(prompts):
        # What is generated stands behind a prompt, so what is filled up stands before it.
        ids[number, longest - len(prompt) :] = torch.tensor(list(prompt), dtype=torch.long)
        mask[number, longest - len(prompt) :] = 1
    with torch.inference_mode():
        made = model.module.generate(input_ids=ids.to(model.device), attention_mask=mask.to(model.device))
    found: list[list[int]] = made[:, longest:].tolist()
    return found


def _stops(model: Any) -> list[int]:
    found: list[int] = []
    for named in (model.module.generation_config.eos_token_id, model.eos):
        found += named if isinstance(named, (list, tuple)) else [named]
    return [token for token in dict.fromkeys(found) if token is not None]


def _until(output: list[int], stops: Sequence[int]) -> list[int]:
    place = next((place for place, token in enumerate(output) if token in stops), len(output) - 1)
    return output[: place + 1]
