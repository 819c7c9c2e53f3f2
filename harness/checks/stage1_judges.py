"""What a server's answers say about each subject of stage 1; pure.

Each judge takes all answers and says how its subject is: present, absent, ignored (accepted, and silently not done:
worse than a refusal) or broken.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.openai_api import probes
from harness.openai_api.http import Answer
from harness.openai_api.probes import FEW_TOKENS, Answers, served_models
from harness.openai_api.reading import Protocol, Reply, StreamReader, read_body

State = Literal["present", "absent", "ignored", "broken"]


@dataclass(frozen=True)
class Verdict:
    """How a subject is."""

    state: State
    detail: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    consequence: str = ""
    mend: str = ""


Judge = Callable[[Answers], Verdict]


# How a refusal looks that means "there is no such thing here", whatever server says it.
_NOT_THERE = (404, 405, 501)


def _refusal(answer: Answer, *, optional_argument: bool = False) -> Verdict | None:
    """The verdict on an answer that is none; for an optional argument a 400 is an honest "can't"."""
    if answer.ok:
        return None
    if answer.status in _NOT_THERE or (optional_argument and answer.status in (400, 422)):
        return Verdict("absent", answer.problem)
    return Verdict("broken", answer.problem)


def _reply_verdict(reply: Reply, detail: str) -> Verdict:
    if reply.deviations:
        return Verdict("broken", "; ".join(reply.deviations))
    return Verdict("present", detail, {"text": reply.text[:300], "finish_reason": reply.finish_reason})


def _choice(answer: Answer) -> dict[str, Any]:
    """The first choice of an OpenAI answer, or nothing."""
    choices = answer.body.get("choices") if isinstance(answer.body, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else {}


def reachable(answers: Answers) -> Verdict:
    """Somebody answers at that address at all."""
    answer = answers["models"]
    if answer.status is None:
        return Verdict("broken", answer.problem)
    return Verdict("present", f"answers in {answer.seconds * 1000:.0f} ms")


def authorised(answers: Answers) -> Verdict:
    """The key is taken."""
    answer = answers["models"]
    if answer.status in (401, 403):
        return Verdict("broken", f"the key is refused ({answer.problem})")
    return Verdict("present", "the key is taken")


def asks_for_key(answers: Answers) -> Verdict:
    """Without a key one is refused."""
    answer = answers["models-without-key"]
    if answer.status in (401, 403):
        return Verdict("present", "refuses callers without a key")
    return Verdict("absent", "answers callers without a key")


def models(answers: Answers) -> Verdict:
    """The list of models is one."""
    answer = answers["models"]
    if names := served_models(answer):
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        return Verdict("present", ", ".join(names[:4]) + more, {"models": names[:100]})
    below = answers.get("models-below-v1")
    if below is not None and served_models(below):
        return Verdict(
            "broken",
            "the list is at …/v1/models: the base URL lacks /v1",
            mend="OPENAI_BASE_URL=…/v1",
            consequence="Every call of an OpenAI client would go to a path that isn't there.",
        )
    if (refused := _refusal(answer)) is not None:
        return refused
    return Verdict("broken", "the answer holds no list of models")


def chat(answers: Answers) -> Verdict:
    """A chat is answered with generated text: the only proof that a server is healthy."""
    answer = answers["chat"]
    if (refused := _refusal(answer)) is not None:
        return Verdict("broken", refused.detail, refused.facts)
    reply = read_body("chat", answer.body)
    fatal = [text for text in reply.deviations if text.startswith(("no choices", "choices[0]", "the body"))]
    if fatal:
        return Verdict("broken", "; ".join(fatal))
    if not reply.text and not reply.completion_tokens:
        return Verdict("broken", "the answer is empty: no text, no tokens")
    speed = f", {reply.completion_tokens / answer.seconds:.0f} tokens/s" if reply.completion_tokens else ""
    return Verdict(
        "present",
        f"answers in {answer.seconds:.2f} s{speed}: {_quoted(reply.text)}",
        {"text": reply.text[:300], "completion_tokens": reply.completion_tokens},
    )


def usage(answers: Answers) -> Verdict:
    """Tokens are counted, and the limit on new ones is kept."""
    answer = answers["chat"]
    reply = read_body("chat", answer.body)
    if reply.completion_tokens is None or reply.prompt_tokens is None:
        return Verdict("absent", "no usage in the answer")
    facts = {"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.completion_tokens}
    if reply.completion_tokens > FEW_TOKENS:
        return Verdict("ignored", f"max_tokens={FEW_TOKENS} gave {reply.completion_tokens} tokens", facts)
    return Verdict("present", f"{reply.prompt_tokens} tokens in, {reply.completion_tokens} out", facts)


def finish_reason(answers: Answers) -> Verdict:
    """It is told why the text ends."""
    reply = read_body("chat", answers["chat"].body)
    if reply.finish_reason is None:
        return Verdict("absent", "no finish_reason")
    return Verdict("present", f"finish_reason={reply.finish_reason}")


def chat_stream(answers: Answers) -> Verdict:
    """A chat can be streamed, with usage at its end."""
    return _stream(answers["chat-stream"], "chat")


def _stream(answer: Answer, protocol: Protocol) -> Verdict:
    if (refused := _refusal(answer)) is not None:
        return refused
    if "event-stream" not in answer.content_type:
        return Verdict("ignored", f"stream=true is answered with {answer.content_type or 'no content type'}")
    reader = StreamReader(protocol)
    parts = sum(reader.feed(event) for event in answer.events)
    reply = reader.reply()
    if reply.completion_tokens is None:
        reply.deviations.append("no usage in the stream")
    if parts == 0:
        reply.deviations.append("no text in the stream")
    first = f", the first after {answer.first_seconds:.2f} s" if answer.first_seconds is not None else ""
    return _reply_verdict(reply, f"{parts} parts{first}")


def unknown_model(answers: Answers) -> Verdict:
    """A model that isn't there is an error."""
    answer = answers["unknown-model"]
    if answer.ok:
        return Verdict("ignored", f"a model named {probes.UNKNOWN_MODEL} is answered for")
    if answer.status is not None and 400 <= answer.status < 500:
        return Verdict("present", answer.problem)
    return Verdict("broken", answer.problem)


def logprobs(answers: Answers) -> Verdict:
    """A chat's log-probs come, one for each token, none above zero."""
    answer = answers["chat-logprobs"]
    if (refused := _refusal(answer, optional_argument=True)) is not None:
        return refused
    given = _choice(answer).get("logprobs")
    content = given.get("content") if isinstance(given, dict) else None
    if not isinstance(content, list) or not content:
        return Verdict("ignored", "logprobs=true is accepted, and none come")
    values = [item.get("logprob") if isinstance(item, dict) else None for item in content]
    numbers = [float(value) for value in values if isinstance(value, (int, float))]
    wrong = len(values) - sum(1 for value in numbers if math.isfinite(value) and value <= 1e-6)
    if wrong:
        return Verdict("broken", f"{wrong} of {len(values)} are no log-probs")
    tokens = read_body("chat", answer.body).completion_tokens
    # The end-of-text token is counted by some servers and never listed.
    if tokens is not None and not tokens - 1 <= len(values) <= tokens:
        return Verdict("broken", f"{len(values)} log-probs for {tokens} tokens")
    top = all(isinstance(item.get("top_logprobs"), list) and item["top_logprobs"] for item in content)
    return Verdict("present", f"one a token{', with alternatives' if top else ', no alternatives'}")


def tools_accepted(answers: Answers) -> Verdict:
    """Tools may be offered."""
    answer = answers["tools-auto"]
    if (refused := _refusal(answer, optional_argument=True)) is not None:
        return refused
    calls = read_body("chat", answer.body).tool_calls
    said = f"the model calls {calls[0].name}" if calls else "the model answers in text"
    return Verdict("present", said)


def tools_required(answers: Answers) -> Verdict:
    """A tool call can be demanded, and what comes is one."""
    answer = answers["tools-required"]
    if (refused := _refusal(answer, optional_argument=True)) is not None:
        return refused
    reply = read_body("chat", answer.body)
    if not reply.tool_calls:
        return Verdict("ignored", "tool_choice=required is answered in text")
    call = reply.tool_calls[0]
    if call.name != "add":
        return Verdict("broken", f"calls {call.name!r}, which was not offered")
    if call.parsed is None or {"a", "b"} - call.parsed.keys():
        return Verdict("broken", f"the arguments don't fit the tool's schema: {call.arguments[:100]}")
    return Verdict("present", f"add({call.arguments})")


def json_schema(answers: Answers) -> Verdict:
    """A JSON schema holds the model's answer."""
    answer = answers["json-schema"]
    if (refused := _refusal(answer, optional_argument=True)) is not None:
        return refused
    text = read_body("chat", answer.body).text
    try:
        value = json.loads(text)
    except ValueError:
        return Verdict("ignored", f"the answer is no JSON: {_quoted(text)}")
    if isinstance(value, dict) and set(value) == {"answer"} and isinstance(value["answer"], int):
        return Verdict("present", _quoted(" ".join(text.split())))
    return Verdict("ignored", f"the answer doesn't fit the schema: {_quoted(text)}")


def messages(answers: Answers) -> Verdict:
    """Anthropic's protocol is spoken."""
    answer = answers["messages"]
    if (refused := _refusal(answer)) is not None:
        return refused
    reply = read_body("messages", answer.body)
    return _reply_verdict(reply, f"{reply.completion_tokens} tokens in {answer.seconds:.2f} s")


def messages_stream(answers: Answers) -> Verdict:
    """Anthropic's protocol is streamed."""
    return _stream(answers["messages-stream"], "messages")


def responses(answers: Answers) -> Verdict:
    """OpenAI's newer protocol is spoken."""
    answer = answers["responses"]
    if (refused := _refusal(answer)) is not None:
        return refused
    return _reply_verdict(read_body("responses", answer.body), f"{answer.seconds:.2f} s")


def completions(answers: Answers) -> Verdict:
    """Plain completions are given."""
    answer = answers["completions"]
    if (refused := _refusal(answer)) is not None:
        return refused
    reply = read_body("completions", answer.body)
    return _reply_verdict(reply, _quoted(reply.text))


def completions_token_ids(answers: Answers) -> Verdict:
    """What AReaL's vLLM engine needs: ids in, and tokens out written as ids with their log-probs."""
    answer = answers["completions-token-ids"]
    if (refused := _refusal(answer, optional_argument=True)) is not None:
        return refused
    given = _choice(answer).get("logprobs")
    tokens = given.get("tokens") if isinstance(given, dict) else None
    if not isinstance(tokens, list) or not tokens:
        return Verdict("ignored", "ids are taken, but no tokens with log-probs come back")
    # vLLM writes token_id:123, AReaL's own documentation token:123; it reads what follows the colon.
    if not all(isinstance(token, str) and re.fullmatch(r"token(_id)?:\d+", token) for token in tokens):
        return Verdict("ignored", f"tokens come back as text, not as ids: {str(tokens[0])[:40]!r}")
    if not isinstance(given, dict) or len(given.get("token_logprobs") or []) != len(tokens):
        return Verdict("broken", "not one log-prob for each token")
    return Verdict("present", f"{tokens[0]}, …")


def prompt_logprobs(answers: Answers) -> Verdict:
    """A given text can be scored token by token."""
    answer = answers["prompt-logprobs"]
    if (refused := _refusal(answer, optional_argument=True)) is not None:
        return refused
    scored = _choice(answer).get("prompt_logprobs")
    if not isinstance(scored, list):
        return Verdict("ignored", "prompt_logprobs is accepted, and none come")
    if len(scored) != len(probes.TOKEN_IDS):
        return Verdict("broken", f"{len(scored)} scores for {len(probes.TOKEN_IDS)} tokens")
    return Verdict("present", "every token of a prompt is scored")


def return_token_ids(answers: Answers) -> Verdict:
    """A chat gives the ids that the model really saw and made."""
    answer = answers["return-token-ids"]
    if (refused := _refusal(answer, optional_argument=True)) is not None:
        return refused
    body = answer.body if isinstance(answer.body, dict) else {}
    made = _choice(answer).get("token_ids")
    seen = body.get("prompt_token_ids") or _choice(answer).get("prompt_token_ids")
    if not isinstance(made, list) or not isinstance(seen, list):
        return Verdict("ignored", "return_token_ids is accepted, and none come")
    return Verdict("present", f"{len(seen)} ids in, {len(made)} out")


def generate(answers: Answers) -> Verdict:
    """SGLang's own route."""
    answer = answers["generate"]
    if (refused := _refusal(answer, optional_argument=True)) is not None:
        return refused
    meta = answer.body.get("meta_info") if isinstance(answer.body, dict) else None
    if not isinstance(meta, dict) or not meta.get("output_token_logprobs"):
        return Verdict("broken", "no output_token_logprobs in meta_info")
    return Verdict("present", "ids in, ids and log-probs out")


def survives(answers: Answers) -> Verdict:
    """The server is still there after all that was asked of it."""
    answer = answers["still-there"]
    if answer.status is not None:
        return Verdict("present", f"still answers after {len(answers) - 1} requests")
    last = list(answers)[-2]
    return Verdict("broken", f"it went away at the request “{last}” ({answer.problem})")


def tokenize(answers: Answers) -> Verdict:
    """A text's ids can be had, under either of the two names that servers give the text."""
    asked = [answers["tokenize"], answers["tokenize-content"]]
    for answer, name in zip(asked, ("prompt", "content"), strict=True):
        tokens = answer.body.get("tokens") if answer.ok and isinstance(answer.body, dict) else None
        if isinstance(tokens, list) and tokens:
            return Verdict("present", f"the text is called “{name}”")
    refused = [verdict for answer in asked if (verdict := _refusal(answer, optional_argument=True)) is not None]
    return refused[0] if refused else Verdict("broken", "no tokens come back")


def there(name: str, what: str) -> Judge:
    """A judge for a route of which it is enough that it answers."""

    def judge(answers: Answers) -> Verdict:
        answer = answers[name]
        return _refusal(answer) or Verdict("present", what)

    return judge


def _quoted(text: str) -> str:
    text = " ".join(text.split())
    return f"“{text[:70]}…”" if len(text) > 70 else f"“{text}”"
