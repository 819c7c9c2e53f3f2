"""What trajectories hold, row by row; pure. ``verl_tensors`` knows verl's.

AReaL's trajectory is what came of one sample: a row for each call of each of its runs (``export_style: individual``),
or for each run (``concat``). ``input_ids``, ``loss_mask``, ``logprobs``, ``versions`` and ``attention_mask`` are (rows,
tokens), ``rewards`` is (rows,).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.checks.stage4 import verl_tensors
from harness.checks.stage4.rows import Row
from harness.openai_api.calls import Call

# What a trainer takes from each trajectory, with the kind of number that it has to be.
WANTED = {
    "input_ids": "int",
    "loss_mask": "int",
    "logprobs": "float",
    "versions": "int",
    "attention_mask": "bool",
    "rewards": "float",
}
# What a line shows of them, whichever framework's they are.
SHOWN = ("input_ids", "logprobs", "rollout_log_probs", "loss_mask", "response_mask", "rewards", "rm_scores")
KINDS = {
    "int": ("int8", "int16", "int32", "int64", "bool"),
    "float": ("float16", "bfloat16", "float32", "float64"),
    "bool": ("bool", "int8", "int32", "int64"),
}


def faults(trajectory: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a trajectory's tensors as such: names, shapes, kinds."""
    if trajectory.get("form") == "verl":
        yield from verl_tensors.faults(trajectory)
        return
    tensors = trajectory["tensors"]
    missing = [name for name in WANTED if name not in tensors]
    if missing:
        yield f"{', '.join(missing)} missing"
    shape = tensors.get("input_ids", {}).get("shape")
    for name, kind in WANTED.items():
        if name not in tensors:
            continue
        given = tensors[name]
        if given["dtype"] not in KINDS[kind]:
            yield f"{name} is {given['dtype']}"
        wanted = shape[:1] if name == "rewards" and shape else shape
        if wanted is not None and given["shape"] != wanted:
            yield f"{name} is {_shape(given['shape'])}, input_ids {_shape(shape)}"


def rows_of(trajectories: Sequence[dict[str, Any]]) -> list[Row]:
    """All rows whose tensors are sound."""
    found = []
    for number, trajectory in enumerate(trajectories):
        if any(faults(trajectory)):
            continue
        if trajectory.get("form") == "verl":
            found += verl_tensors.rows_of(number, trajectory)
            continue
        rows = trajectory["rows"]
        texts = trajectory.get("texts") or []
        for index, attention in enumerate(rows["attention_mask"]):
            keep = [place for place, use in enumerate(attention) if use]

            def picked(name: str, index: int = index, keep: list[int] = keep, rows: Any = rows) -> list[Any]:
                return [rows[name][index][place] for place in keep]

            text = texts[index] if index < len(texts) else {}
            found.append(
                Row(
                    (number, index),
                    tuple(picked("input_ids")),
                    tuple(int(use) for use in picked("loss_mask")),
                    tuple(float(one) for one in picked("logprobs")),
                    tuple(picked("versions")),
                    float(rows["rewards"][index]),
                    text.get("prompt", ""),
                    text.get("answer_plain", ""),
                    text.get("answer", ""),
                )
            )
    return found


@dataclass(frozen=True)
class Generation:
    """One call of AReaL's engine to the server.

    Args:
        prompt: ids that went in.
        answer: ids that came out, with their log-probs.
        text: the same as the server's own tokenizer reads them; empty where it doesn't say.
    """

    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: str = ""
    text: str = ""


def generation(call: Call) -> Generation | None:
    """A call to ``/v1/completions`` or ``/generate`` by token ids; None for any other."""
    if not call.ok or not isinstance(call.request, dict) or not isinstance(call.response, dict):
        return None
    try:
        if call.path.startswith("/generate"):
            meta = call.response["meta_info"]
            pairs = meta["output_token_logprobs"]
            finish = (meta.get("finish_reason") or {}).get("type", "")
            return Generation(
                tuple(call.request["input_ids"]),
                tuple(int(pair[1]) for pair in pairs),
                tuple(float(pair[0]) for pair in pairs),
                str(finish),
                str(call.response.get("text") or ""),
            )
        choice = call.response["choices"][0]
        tokens = [int(token.rpartition(":")[2]) for token in choice["logprobs"]["tokens"]]
        logprobs = [float(one) for one in choice["logprobs"]["token_logprobs"]]
        prompt = call.request["prompt"]
        if not isinstance(prompt, list):
            return None
        finish = str(choice.get("finish_reason") or "")
        return Generation(tuple(prompt), tuple(tokens), tuple(logprobs), finish, str(choice.get("text") or ""))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        return None


def not_generated(row: Row, generations: Sequence[Generation]) -> str:
    """In which way a row isn't what the server was asked and answered; empty where it is.

    A row of one call is that call's ids one after the other. One of several calls has the last call's, and each earlier
    answer within its prompt. verl cuts a row off at ``response_length``.
    """
    length = len(row.ids)
    # Lengths first: of a batch's calls few have this row's, and only they are worth putting together.
    ends = [one for one in generations if len(one.prompt) + len(one.answer) == length]
    ends = [one for one in ends if row.ids == one.prompt + one.answer]
    ends = ends or [
        replace(one, answer=one.answer[: length - len(one.prompt)], logprobs=one.logprobs[: length - len(one.prompt)])
        for one in generations
        if len(one.prompt) < length and row.ids == (one.prompt + one.answer)[:length]
    ]
    if not ends:
        return "its tokens are no prompt and answer of any call to the server"
    for one in ends:
        first = len(one.prompt)
        if row.mask[first:] != (1,) * len(one.answer):
            return f"the loss mask leaves out tokens of the answer, which begins at {first}"
        if any(row.mask[:first]) and not _earlier_answers(row, first, generations):
            return "the loss mask counts tokens of the prompt"
        given = row.logprobs[first:]
        if all(abs(a - b) < 1e-3 for a, b in zip(given, one.logprobs, strict=True)):
            return ""
    return "its log-probs are not those that the server gave for these tokens"


def _earlier_answers(row: Row, first: int, generations: Sequence[Generation]) -> bool:
    """Whether what the mask counts before the last answer are the answers of earlier calls, each after its prompt."""
    wanted = [0] * first
    for one in generations:
        end = len(one.prompt) + len(one.answer)
        if end <= first and row.ids[:end] == one.prompt + one.answer:
            wanted[len(one.prompt) : end] = [1] * len(one.answer)
    return list(row.mask[:first]) == wanted


def _shape(shape: Any) -> str:
    return "×".join(map(str, shape)) if shape else "a number"
