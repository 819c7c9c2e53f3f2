"""One call to a language model, as plain data, and how it is read from the bytes on the wire.

Two observers make the same record. The proxy (``proxy``) stands between the agent's process and the server: it sees
every call, whatever SDK, thread or child process makes it, and costs two thirds of the CPU time that the OpenAI SDK
itself takes for a call; on two busy cores that is the throughput of hundreds of runs. The observer inside the process
(``observer``) hooks httpx's ``send``: some 40 µs a call, which is below the noise, but it sees only what goes through
httpx. Stage 2 uses both for its one run and notes whether they saw the same (``seen_in_process``); where they did, a
stage with many runs in flight can do without the hop.
"""

from __future__ import annotations

import json
import time
import typing
from dataclasses import asdict, dataclass, field
from typing import Any

from harness.openai_api.incoming import MAX_KEPT
from harness.openai_api.reading import Protocol, Reply, StreamReader, ToolCall, protocol_of, read_body
from harness.openai_api.sse import Decoder


class Listener(typing.Protocol):
    """Hears the bytes of a call as they pass by; a recording's tape is one."""

    def answered(self, status: int, content_type: str) -> None:
        """The answer's head has come."""

    def feed(self, chunk: bytes) -> None:
        """Part of the answer's body has come."""

    def failed(self, why: str) -> None:
        """No answer came, or it broke off."""

    def abandoned(self, why: str) -> None:
        """The agent hung up before the answer was there."""


@dataclass(frozen=True)
class Call:
    """One call.

    Args:
        number: counts from 1 within a run.
        run: index of the run it belongs to.
        path: as the agent asked for it, so that a doubled or missing ``/v1`` shows.
        asked: the request's parameters without messages and tools.
        messages: number of messages in the request.
        status: HTTP status; None where no answer came.
        failure: why there is no whole answer, in a sentence.
        abandoned: the agent didn't wait for the end of the answer.
        started: seconds after the run began.
        seconds: to the last byte.
        first_token_seconds: to the first output of the model, for streams.
        caller: the line that made it, where an observer was told how to find that.
        reply: what the model answered; None where the route isn't one of a model's or the call failed.
        request: the request's body.
        response: the answer's body, or its events' data for a stream.
    """

    number: int
    run: int
    method: str
    path: str
    protocol: Protocol
    asked: dict[str, Any]
    messages: int
    status: int | None
    failure: str
    started: float
    seconds: float
    streamed: bool
    first_token_seconds: float | None
    reply: Reply | None
    abandoned: bool = False
    request: Any = field(default=None, repr=False)
    response: Any = field(default=None, repr=False)
    caller: dict[str, Any] | None = None

    @property
    def ok(self) -> bool:
        """Whether a whole answer came with a status of success."""
        return not self.failure and self.status is not None and self.status < 400

    @property
    def is_generation(self) -> bool:
        """Whether a model was asked to generate; a list of models or a health check isn't."""
        return self.protocol != "other"

    def as_dict(self) -> dict[str, Any]:
        """For a file or a channel."""
        return asdict(self)

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Call:
        """The reverse of ``as_dict``."""
        reply = value["reply"]
        if reply is not None:
            reply = Reply(**{**reply, "tool_calls": [ToolCall(**call) for call in reply["tool_calls"]]})
        return cls(**{**value, "reply": reply})


class Reader:
    """Reads one call while its bytes pass by.

    Args:
        number, run, method, path: as in ``Call``.
        request: the request's body.
        began: the run's start, on the monotonic clock.

    ``tape`` may be set to something that keeps the bytes as well. While bytes pass by, little is done with them: a
    body is parsed when somebody asks for what is in it.
    """

    def __init__(self, number: int, run: int, method: str, path: str, request: bytes, began: float) -> None:
        self.tape: Listener | None = None
        self.number, self.path = number, path
        self._run, self._method = run, method
        self._began, self._started = began, time.monotonic()
        self._protocol = protocol_of(path)
        self.raw_request = request
        self._status: int | None = None
        self._failure = ""
        self._abandoned = False
        self._first: float | None = None
        self._stream: StreamReader | None = None
        self._decoder: Decoder | None = None
        self._events: list[str] = []
        self._raw = bytearray()
        self._size = 0

    @property
    def status(self) -> int | None:
        """HTTP status; None where no answer has come."""
        return self._status

    @property
    def failure(self) -> str:
        """Why there is no whole answer; of a stream that carries an error it is known once ``read`` was called."""
        return self._failure

    @property
    def first_token_seconds(self) -> float | None:
        """As in ``Call``."""
        return self._first

    @property
    def protocol(self) -> Protocol:
        """The protocol that the request's path speaks."""
        return self._protocol

    def answered(self, status: int, content_type: str) -> None:
        """The answer's head has come."""
        self._status = status
        if self.tape is not None:
            self.tape.answered(status, content_type)
        if "event-stream" in content_type:
            self._stream, self._decoder = StreamReader(self._protocol), Decoder()

    def feed(self, chunk: bytes) -> None:
        """Part of the answer's body has come."""
        self._size += len(chunk)
        if self.tape is not None:
            self.tape.feed(chunk)
        if self._stream is None or self._decoder is None:
            if self._size <= MAX_KEPT:
                self._raw += chunk
            return
        for event in self._decoder.feed(chunk):
            if self._stream.feed(event) and self._first is None:
                self._first = time.monotonic() - self._started
            if self._size <= MAX_KEPT:
                self._events.append(event.data)

    def failed(self, why: str) -> None:
        """No answer came, or it broke off."""
        self._failure = self._failure or why
        if self.tape is not None:
            self.tape.failed(why)

    def abandoned(self, why: str) -> None:
        """The agent hung up before the answer was there."""
        if self.tape is not None:
            self.tape.abandoned(why)
        self._abandoned = self._abandoned or not self._failure
        self.failed(why)

    def read(self) -> tuple[Any, Reply | None]:
        """The answer's body, or its events' data for a stream, and what the model answered."""
        response: Any = self._events
        if self._stream is None:
            response = _json(bytes(self._raw))
        reply = None
        if self._protocol != "other" and self._status is not None and self._status < 400:
            reply = read_body(self._protocol, response) if self._stream is None else self._stream.reply()
        if not self._failure and self._stream is not None and self._stream.error:
            self._failure = f"the stream carries an error: {self._stream.error}"
        return response, reply

    def call(self) -> Call:
        """The whole record, once the last byte is there or the call has failed."""
        seconds = time.monotonic() - self._started
        response, reply = self.read()
        request = _json(self.raw_request)
        asked, messages = _asked(request)
        return Call(
            self.number,
            self._run,
            self._method,
            self.path,
            self._protocol,
            asked,
            messages,
            self._status,
            self._failure,
            self._started - self._began,
            seconds,
            self._stream is not None,
            self._first,
            reply,
            self._abandoned,
            request,
            response,
        )


def _json(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return raw[:4000].decode("utf-8", "replace")


def _asked(request: Any) -> tuple[dict[str, Any], int]:
    if not isinstance(request, dict):
        return {}, 0
    messages = request.get("messages", request.get("input"))
    asked = {
        key: value for key, value in request.items() if key not in ("messages", "input", "prompt", "system", "tools")
    }
    if isinstance(request.get("tools"), list):
        asked["tools"] = len(request["tools"])
    return asked, len(messages) if isinstance(messages, list) else 0
