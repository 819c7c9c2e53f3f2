"""Stage 1: asks a server everything that later stages need, and judges the answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from harness.checks.findings import StageResult
from harness.checks.stage1_rules import judge_all
from harness.openai_api import probes
from harness.openai_api.http import Endpoint, Server


def run(
    endpoint: Endpoint,
    *,
    model: str,
    timeout: float = 60.0,
    transport: Any = None,
    tell: Callable[[str], None] = lambda _name: None,
) -> tuple[str, StageResult]:
    """Ask a server and judge it.

    Args:
        endpoint: where it is.
        model: which model to ask for; empty means the first that it lists.
        timeout: seconds that one request may take between two bytes.
        transport: stands in for the network in tests.
        tell: called with the name of each probe before it is sent.

    Returns:
        The model that was asked for, and the stage's result.
    """
    started = time.monotonic()
    with Server(endpoint, timeout=timeout, transport=transport) as server:
        model, answers = probes.ask(server, model, tell=tell)
    figures: dict[str, Any] = {"base_url": endpoint.base_url, "model": model}
    if (chat := answers.get("chat")) is not None and chat.ok:
        figures["chat_seconds"] = round(chat.seconds, 3)
    if (stream := answers.get("chat-stream")) is not None and stream.first_seconds is not None:
        figures["first_token_seconds"] = round(stream.first_seconds, 3)
    return model, StageResult(
        stage=1,
        title=f"the server at {endpoint.base_url}",
        findings=judge_all(answers),
        figures=figures,
        seconds=round(time.monotonic() - started, 3),
    )
