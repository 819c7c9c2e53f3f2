"""What a group of verl's runs holds, as its agent loop worker gives it to the trainer; pure.

``prompts`` is (rows, prompt_length), padded on the left; ``responses``, ``response_mask``, ``rollout_log_probs`` and
``rm_scores`` are (rows, response_length), padded on the right; ``input_ids``, ``attention_mask`` and ``position_ids``
are (rows, both). ``rm_scores`` is 0 but for a row's last token, which has the reward of the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.checks.stage4.rows import Row

# What the trainer takes from each group: the kind of number, and its width: of prompts, of responses, of both.
WANTED = {
    "prompts": ("int", "prompt"),
    "responses": ("int", "response"),
    "response_mask": ("int", "response"),
    "input_ids": ("int", "both"),
    "attention_mask": ("int", "both"),
    "position_ids": ("int", "both"),
    "rm_scores": ("float", "response"),
}
# Left out where rollout.calculate_log_probs is false.
OPTIONAL = {"rollout_log_probs": ("float", "response")}
_KINDS = {"int": ("int32", "int64"), "float": ("float16", "bfloat16", "float32", "float64")}


def faults(trajectory: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a group's tensors as such: names, shapes, kinds, masks."""
    tensors = trajectory["tensors"]
    missing = [name for name in WANTED if name not in tensors]
    if missing:
        yield f"{', '.join(missing)} missing"
        return
    rows, prompt = tensors["prompts"]["shape"]
    response = tensors["responses"]["shape"][-1]
    widths = {"prompt": prompt, "response": response, "both": prompt + response}
    for name, (kind, width) in {**WANTED, **OPTIONAL}.items():
        if name not in tensors:
            continue
        given = tensors[name]
        if given["dtype"] not in _KINDS[kind]:
            yield f"{name} is {given['dtype']}"
        if given["shape"] != [rows, widths[width]]:
            yield f"{name} is {'×'.join(map(str, given['shape']))}, not {rows}×{widths[width]}"
            return
    yield from _of_masks(trajectory["rows"], prompt)


def _of_masks(rows: dict[str, Any], prompt: int) -> Iterator[str]:
    """The response mask counts nothing but tokens that are there."""
    for number, (mask, attention) in enumerate(zip(rows["response_mask"], rows["attention_mask"], strict=True)):
        there = attention[prompt:]
        if any(use not in (0, 1) for use in mask):
            yield f"the response mask of row {number} has other values than 0 and 1"
        elif any(use and not at for use, at in zip(mask, there, strict=True)):
            yield f"the response mask of row {number} counts padding"


def rows_of(number: int, trajectory: dict[str, Any]) -> list[Row]:
    """The rows of a sound group."""
    rows, found = trajectory["rows"], []
    texts = trajectory.get("texts") or []
    for index, attention in enumerate(rows["attention_mask"]):
        width = len(rows["prompts"][index])
        keep = [place for place, use in enumerate(attention) if use]
        answered = [place - width for place in keep if place >= width]
        asked = len(keep) - len(answered)
        logprobs = rows.get("rollout_log_probs")
        text = texts[index] if index < len(texts) else {}
        found.append(
            Row(
                (number, index),
                tuple(rows["input_ids"][index][place] for place in keep),
                (0,) * asked + tuple(int(rows["response_mask"][index][place]) for place in answered),
                (0.0,) * asked + tuple(float(logprobs[index][place]) if logprobs else 0.0 for place in answered),
                (),
                sum(float(one) for one in rows["rm_scores"][index]),
                text.get("prompt", ""),
                text.get("answer_plain", ""),
                text.get("answer", ""),
            )
        )
    return found
