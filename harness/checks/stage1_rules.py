"""What the state of each subject means for the later stages; pure.

What is required makes the check fail; all else names those who will miss it.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.checks import stage1_judges as judges
from harness.checks.findings import Finding, Status
from harness.checks.stage1_judges import Judge, Verdict
from harness.openai_api.http import Answer
from harness.openai_api.probes import Answers


@dataclass(frozen=True)
class Subject:
    """One line of stage 1.

    Args:
        probe: the answer without which there is nothing to judge.
        required: without it no later stage can work.
        missed_by: what later stages or users will miss without it; shown unless it is present.
    """

    id: str
    title: str
    probe: str
    judge: Judge
    missed_by: str = ""
    required: bool = False
    mend: str = ""


def judge_all(answers: Answers) -> tuple[Finding, ...]:
    """All findings of stage 1, in the order of the table; what could not be asked is skipped with the reason."""
    findings: list[Finding] = []
    blocked = ""
    gone = ""
    if (last := answers.get("still-there")) is not None and last.status is None:
        gone = judges.survives(answers).detail
    for subject in SUBJECTS:
        answer = answers.get(subject.probe)
        if blocked or answer is None:
            findings.append(
                Finding(id=subject.id, title=subject.title, status="skip", detail=f"not asked: {blocked or gone}")
            )
            continue
        finding = _finding(subject, answer, subject.judge(answers))
        findings.append(finding)
        if finding.status == "fail":
            blocked = f"{finding.title}: {finding.detail}"
    return tuple(findings)


def _finding(subject: Subject, answer: Answer, verdict: Verdict) -> Finding:
    status: Status = "pass"
    if verdict.state != "present":
        status = "fail" if subject.required else "absent" if verdict.state == "absent" else "warn"
    good = status == "pass"
    return Finding(
        id=subject.id,
        title=subject.title,
        status=status,
        detail=verdict.detail,
        consequence="" if good else verdict.consequence or subject.missed_by,
        mend="" if good else verdict.mend or subject.mend,
        facts={"state": verdict.state, **verdict.facts},
        seconds=round(answer.seconds, 3),
    )


_GONE = "A request that any agent may send ends the server for everybody; or somebody stopped it."
_REACH = "Nothing else can be checked."
_AREAL_VLLM = "AReaL's vLLM engine (its own stage of integration) can't use this server; agents can."
_EVAL = "Comparing the engine with the trainer's model token by token needs it."

SUBJECTS: tuple[Subject, ...] = (
    Subject(
        "server.reachable", "reachable", "models", judges.reachable, _REACH, True, "make up   # or set OPENAI_BASE_URL"
    ),
    Subject(
        "server.key", "key", "models", judges.authorised, _REACH, True, "set OPENAI_API_KEY, or give --api-key-file"
    ),
    Subject(
        "server.asks-for-key",
        "protected",
        "models-without-key",
        judges.asks_for_key,
        "Whoever reaches the port can use the server; fine on a machine of your own, not on a shared one.",
    ),
    Subject(
        "server.models", "models", "models", judges.models, "An agent can't find out what is served; name the model."
    ),
    Subject(
        "server.chat",
        "chat",
        "chat",
        judges.chat,
        "No agent can run against this server.",
        True,
        "make logs S=inference   # or the log of a server of your own; or set MODEL to a name that it lists",
    ),
    Subject(
        "server.usage", "token counts", "chat", judges.usage, "Tokens per run and per second will be missing or wrong."
    ),
    Subject(
        "server.finish-reason",
        "finish reason",
        "chat",
        judges.finish_reason,
        "A cut answer looks like one that ended by itself.",
    ),
    Subject(
        "server.streaming",
        "streaming",
        "chat-stream",
        judges.chat_stream,
        "Agents that stream fail; no first-token times.",
    ),
    Subject(
        "server.logprobs",
        "log-probs",
        "chat-logprobs",
        judges.logprobs,
        "Off-policy corrections and comparisons need them.",
    ),
    Subject(
        "server.unknown-model",
        "unknown model is an error",
        "unknown-model",
        judges.unknown_model,
        "A typo in an agent's model name goes unnoticed here and fails elsewhere.",
    ),
    Subject("server.tools", "tools offered", "tools-auto", judges.tools_accepted, "Agents that use tools fail here."),
    Subject(
        "server.tools-required",
        "tool call demanded",
        "tools-required",
        judges.tools_required,
        "Agents that force a tool call get text or arguments they can't use; a small model does that too.",
    ),
    Subject(
        "server.json-schema",
        "JSON schema",
        "json-schema",
        judges.json_schema,
        "Structured answers have to be parsed and may fail.",
    ),
    Subject(
        "server.messages", "Anthropic /v1/messages", "messages", judges.messages, "Agents on Anthropic's SDK can't run."
    ),
    Subject(
        "server.messages-streaming",
        "Anthropic streaming",
        "messages-stream",
        judges.messages_stream,
        "Agents on Anthropic's SDK that stream can't run.",
    ),
    Subject(
        "server.responses",
        "/v1/responses",
        "responses",
        judges.responses,
        "Agents on OpenAI's Responses API can't run.",
    ),
    Subject("server.completions", "plain completions", "completions", judges.completions, _AREAL_VLLM),
    Subject(
        "server.token-ids",
        "completions by token ids",
        "completions-token-ids",
        judges.completions_token_ids,
        _AREAL_VLLM,
    ),
    Subject("server.prompt-logprobs", "prompt log-probs", "prompt-logprobs", judges.prompt_logprobs, _EVAL),
    Subject("server.return-token-ids", "token ids of a chat", "return-token-ids", judges.return_token_ids, _EVAL),
    Subject(
        "server.generate",
        "SGLang /generate",
        "generate",
        judges.generate,
        "AReaL's SGLang engine can't use this server; agents can.",
    ),
    Subject("server.tokenize", "/tokenize", "tokenize", judges.tokenize, _EVAL),
    Subject(
        "server.health",
        "/health",
        "health",
        judges.there("health", "answers"),
        "A controller that attaches to a running server asks it first.",
    ),
    Subject(
        "server.metrics",
        "/metrics",
        "metrics",
        judges.there("metrics", "answers"),
        "The server's own queue can't be read; waiting is then measured from outside.",
    ),
    Subject(
        "server.survives",
        "stays up",
        "still-there",
        judges.survives,
        _GONE,
        True,
        "make logs S=inference   # its last words; those of a server of your own are in its own log",
    ),
)
