"""Calls a reward function of the user's: a program, so that foreign code can end or print only here.

``python rewards.py MODULE FUNCTION FOLDER…`` on the reference's interpreter. Says ``{"form": …}`` once the function is
there, then answers each line of standard input with ``{"reward": number}`` or ``{"error": sentence}``.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import math
import os
import sys
from collections.abc import Callable
from typing import Any


def main(module: str, name: str, *folders: str) -> int:
    """Serve until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(value: dict[str, Any]) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    sys.path[:0] = folders
    try:
        function = getattr(importlib.import_module(module), name)
        form = form_of(function)
    except BaseException as error:  # noqa: BLE001  # foreign code; it may also leave by SystemExit
        say({"error": f"{type(error).__name__}: {error}"[:500]})
        return 1
    say({"form": form})
    for line in sys.stdin:
        try:
            say({"reward": number(call(function, form, json.loads(line)))})
        except Exception as error:  # noqa: BLE001  # likewise
            say({"error": f"{type(error).__name__}: {error}"[:500]})
    return 0


def form_of(function: Callable[..., Any]) -> str:
    """``verl`` where it takes a ``solution_str``, else ``areal``."""
    return "verl" if "solution_str" in inspect.signature(function).parameters else "areal"


def call(function: Callable[..., Any], form: str, asked: dict[str, Any]) -> Any:
    """As AReaL's RLVRWorkflow and verl's reward managers call it."""
    row = asked["row"]
    if form == "verl":
        truth = (row.get("reward_model") or {}).get("ground_truth", row.get("ground_truth", row.get("answer")))
        value = function(
            data_source=row.get("data_source", ""), solution_str=asked["text"], ground_truth=truth,
            extra_info=row.get("extra_info"),
        )  # fmt: skip
    else:
        positional = (asked["prompt"], asked["whole"], asked["prompt_ids"], asked["output_ids"])
        taken = list(inspect.signature(function).parameters)[: len(positional)]
        value = function(*positional, **{key: value for key, value in row.items() if key not in taken})
    return asyncio.run(value) if inspect.iscoroutine(value) else value


def number(value: Any) -> float:
    """The reward itself, also out of verl's dict."""
    found = float(value["score"] if isinstance(value, dict) else value)
    if not math.isfinite(found):
        raise ValueError(f"the reward is {found}")
    return found


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
