"""A server that the stack uses and did not start: does it answer?"""

from __future__ import annotations

from harness.openai_api.http import Endpoint, Server
from harness.stack.plan import Plan

ANSWER_SECONDS = 5.0


def silence(plan: Plan) -> str:
    """Why an external server can't be used as it is, from this machine's side; empty where it answers.

    An HTTP error is an answer, save for a refused key: `check` judges the rest.
    """
    key = plan.settings.openai_api_key
    with Server(
        Endpoint(plan.server.host_url, key.get_secret_value() if key else ""), timeout=ANSWER_SECONDS
    ) as server:
        answer = server.get("/models")
    if answer.failure is not None:
        return answer.failure.text
    if answer.status in (401, 403):
        return f"HTTP {answer.status}: it refuses the key (OPENAI_API_KEY)"
    return ""
