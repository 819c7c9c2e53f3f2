"""Batches as AReaL's controller leaves them, without AReaL; each test spoils one thing of a sound one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.agent import rewards
from harness.agent.source import AgentSource, RunMethod
from harness.checks.stage4.data import Asked, Rolled
from harness.openai_api.calls import Call
from harness.openai_api.reading import Reply

AGENT = AgentSource("my_agent.py:A", "my_agent", "A", Path("/w/my_agent.py"), (), 3, RunMethod(4, True, (9,), True))
PROMPT, ANSWER = [5, 6, 7], [8, 9]
LOGPROBS = [-0.5, -1.25]
STARTED = ("start", "import", "config", "workers", "proxy", "rollout", "template", "end")


def event(name: str, /, **fields: Any) -> dict[str, Any]:
    return {"event": name, "time": 1.0, **fields}


def engine_call(prompt: list[int] = PROMPT, answer: list[int] = ANSWER, logprobs: list[float] = LOGPROBS) -> Call:
    """AReaL's engine asked the server for tokens."""
    choice = {
        "finish_reason": "stop",
        "text": "Paris",
        "logprobs": {"tokens": [f"token:{token}" for token in answer], "token_logprobs": logprobs},
    }
    return call("/v1/completions", request={"prompt": prompt, "max_tokens": 16}, response={"choices": [choice]})


def call(path: str, **changes: Any) -> Call:
    """A call that was answered."""
    fields: dict[str, Any] = {
        "number": 1, "run": 0, "method": "POST", "path": path, "protocol": "chat" if "chat" in path else "completions",
        "asked": {}, "messages": 1, "status": 200, "failure": "", "started": 0.1, "seconds": 0.5, "streamed": False,
        "first_token_seconds": None, "reply": Reply(id="c1", text="Paris", finish_reason="stop"),
    }  # fmt: skip
    return Call(**{**fields, **changes})


def trajectory(
    runs: int = 1, reward: float = 1.0, *, shapes: dict[str, Any] | None = None, **rows: Any
) -> dict[str, Any]:
    """What came of one sample: a row for each of its runs, with one token of padding."""
    ids, width = [*PROMPT, *ANSWER, 0], 6
    values: dict[str, Any] = {
        "input_ids": [ids] * runs,
        "loss_mask": [[0, 0, 0, 1, 1, 0]] * runs,
        "logprobs": [[0.0, 0.0, 0.0, *LOGPROBS, 0.0]] * runs,
        "versions": [[-1, -1, -1, 0, 0, -1]] * runs,
        "attention_mask": [[True] * 5 + [False]] * runs,
        "rewards": [reward] * runs,
        **rows,
    }
    kinds = {"input_ids": "int64", "loss_mask": "int32", "logprobs": "float32", "versions": "int32",
             "attention_mask": "bool", "rewards": "float32"}  # fmt: skip
    tensors = {name: {"shape": [runs] if name == "rewards" else [runs, width], "dtype": kinds[name]} for name in kinds}
    text = {"prompt": "What is the capital of France?", "answer": "Paris<|im_end|>", "answer_plain": "Paris"}
    return event("trajectory", work=0, index=0, tensors={**tensors, **(shapes or {})}, rows=values, others={},
                 texts=[text] * runs)  # fmt: skip


def note(event_name: str, index: int = 0, session: str = "s0", **fields: Any) -> dict[str, Any]:
    return event(event_name, index=index, session=session, **fields)


def returned(value: Any, index: int = 0, session: str = "s0") -> dict[str, Any]:
    return note("returned", index, session, reward=rewards.describe(value).as_dict(), seconds=0.1)


def raised(error: str = "KeyError", text: str = "'answer'", session: str = "s0") -> dict[str, Any]:
    frames = [
        {"file": "/lib/areal/workflow.py", "line": 3, "function": "arun", "source": ""},
        {"file": "/w/my_agent.py", "line": 7, "function": "run", "source": "data['answer']"},
    ]
    return note("raised", 0, session, error=error, text=text, frames=frames)


def rolled(**changes: Any) -> Rolled:
    """Two samples, one run each, all as it should be."""
    asked = changes.pop("asked", Asked("agent", "my_agent.py:A", 2, 1))
    got = changes.pop("trajectories", [trajectory(), trajectory()])
    more = changes.pop("more", [])
    phases = changes.pop("phases", STARTED)
    log = changes.pop("log", "")
    progress = {"enqueued": 0, "running": 0, "accepted": len(got), "rejected": asked.prompts - len(got), "capacity": 4}
    progress |= changes.pop("progress", {})
    events = [event("phase", name=name) for name in phases]
    events += [event("versions", areal="1.0.4", torch="2.13.0+cpu")]
    if "rollout" in phases:
        events += [event("progress", work=0, **progress)]
    if "template" in phases:
        events += [event("batch", work=0, asked=asked.prompts, got=len(got), seconds=2.0), *got]
        events += [event("template", there=True, prompt_kept=True, answer_kept=True, first="", later="")]
    fields: dict[str, Any] = {
        "events": [*events, *more],
        "notes": [note("found", importable=True, module="my_agent"), returned(1.0), returned(1.0, 1, "s1")],
        "engine": [engine_call(), engine_call()],
        "agents": [("s0", call("/chat/completions")), ("s1", call("/chat/completions"))],
        "exit_status": 0,
    }
    found = Rolled(asked, **{**fields, **changes})
    found.output.add(log.encode())
    return found
