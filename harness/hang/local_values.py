"""Secrets out of local variables, before they leave the machine or the container that they were read on."""

from __future__ import annotations

import json
from typing import Any

from harness.processes.redact import is_secret_name, secret_values
from harness.processes.sampling import facts
from harness.processes.sampling.model import NodeAnswer
from harness.runs.redact import STAND_IN, Redactor


def hide_secrets(answer: NodeAnswer) -> NodeAnswer:
    """The answer without secrets in its local variables: by their name, their look, and the process's environment."""
    for entry in answer.processes:
        redactor = Redactor(secret_values(facts.environ(entry.pid)))
        for sample in entry.samples:
            content = answer.dumps.get(sample.file or "")
            if sample.file and content:
                answer.dumps[sample.file] = cleaned(content, redactor)
    return answer


def cleaned(content: bytes, redactor: Redactor) -> bytes:
    """py-spy's JSON with the values of local variables without secrets; what is no such JSON holds no variables."""
    try:
        threads = json.loads(content)
    except (ValueError, RecursionError):
        return content
    for variable in _variables(threads):
        if is_secret_name(str(variable.get("name"))):
            variable["repr"] = STAND_IN
        elif isinstance(variable.get("repr"), str):
            variable["repr"] = redactor.text(variable["repr"])
    return json.dumps(threads).encode()


def _variables(threads: Any) -> list[dict[str, Any]]:
    frames = [frame for thread in _dicts(threads) for frame in _dicts(thread.get("frames"))]
    return [variable for frame in frames for variable in _dicts(frame.get("locals"))]


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
