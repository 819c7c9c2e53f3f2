"""Log-probabilities of given tokens, teacher-forced, also as other sampling parameters would have made them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from .memory import give_back

Sample = dict[str, Any]
View = dict[str, Any]


def score(
    model: Any,
    samples: Sequence[Sample],
    views: Sequence[View],
    change: dict[str, Any] | None,
    with_images: Callable[[Sample], dict[str, Any]] | None = None,
) -> Iterator[dict[str, Any]]:
    """One answer a sample, in batches of at most ``model.batch_tokens`` tokens with their padding.

    Args:
        samples: ``id``, ``prompt`` and ``output`` (token ids).
        views: sampling parameters under which to see the same logits: ``{}`` as they are, ``{"temperature": 0.7}``,
            ``{"top_p": 0.9}``, ``{"top_k": 20}``; an answer has one list of log-probabilities for each.
        change: another rope; see ``Model.changed``.
        with_images: what the model takes for a sample that has ``messages``, with images; those go one by one.

    Yields:
        ``id``, ``logprobs`` (views × output), ``top`` and ``top_logprobs`` (most likely token at each position).
    """
    with model.changed(change):
        for one in samples:
            if one.get("messages"):
                assert with_images is not None
                (states,) = model.hidden([[*one["prompt"], *one["output"]]], [len(one["prompt"])], with_images(one))
                yield {"id": one["id"], **_one(model, states, one["output"], views)}
        for batch in batches([one for one in samples if not one.get("messages")], model.batch_tokens):
            rows = [[*one["prompt"], *one["output"]] for one in batch]
            if not change:
                model.check_head(rows[0])
            states = model.hidden(rows, [len(one["prompt"]) for one in batch])
            for one, own in zip(batch, states, strict=True):
                yield {"id": one["id"], **_one(model, own, one["output"], views)}
            # Batches differ in shape, so each would leave other holes behind, and memory would grow with their number.
            give_back()


def _length(sample: Sample) -> int:
    return len(sample["prompt"]) + len(sample["output"])


def batches(samples: Sequence[Sample], most: int, length: Callable[[Sample], int] = _length) -> Iterator[list[Sample]]:
    """Samples of like length together, so that little is padded; one that is longer than ``most`` goes alone."""
    batch: list[Sample] = []
    longest = 0
    for one in sorted(samples, key=length):
        size = length(one)
        if batch and max(longest, size) * (len(batch) + 1) > most:
            yield batch
            batch, longest = [], 0
        batch.append(one)
        longest = max(longest, size)
    if batch:
        yield batch


def _one(model: Any, states: torch.Tensor, output: Sequence[int], views: Sequence[View]) -> dict[str, Any]:
    wanted = torch.tensor(list(output), device=states.device)
    found: list[list[float]] = [[] for _ in views]
    top: list[int] = []
    top_logprobs: list[float] = []
    done = 0
    for logits in model.logits(states):
        tokens = wanted[done : done + len(logits)]
        done += len(logits)
        plain = torch.log_softmax(logits, dim=-1)
        best = plain.max(dim=-1)
        top += best.indices.tolist()
        top_logprobs += best.values.tolist()
        for kept, view in zip(found, views, strict=True):
            kept += (plain if not view else seen(logits, view)).gather(1, tokens[:, None])[:, 0].tolist()
    return {"logprobs": found, "top": top, "top_logprobs": top_logprobs}


def seen(logits: torch.Tensor, view: View) -> torch.Tensor:
    """Log-probabilities (positions, vocabulary) after temperature, top-k and top-p, renormalised; −inf what is cut."""
    logits = logits / view.get("temperature", 1.0)
    if k := view.get("top_k"):
        least = logits.topk(min(k, logits.shape[-1]), dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    if p := view.get("top_p"):
        ordered, places = logits.sort(dim=-1, descending=True)
        # A token stays if what is likelier than it does not make up p already.
        before = ordered.softmax(dim=-1).cumsum(dim=-1) - ordered.softmax(dim=-1)
        cut = torch.zeros_like(before, dtype=torch.bool).scatter(1, places, before >= p)
        logits = logits.masked_fill(cut, -torch.inf)
    return torch.log_softmax(logits, dim=-1)
