"""Stand-ins for the engine, its process and a caller whose connection can be cut."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message

from gateway.config import Config, Start
from gateway.upstream import Headers, UpstreamAnswer
from harness import engines

KEY = "the-key"
ALIAS = "smollm2-135m"
HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
CHAT = "/v1/chat/completions"


@dataclass
class Request:
    """What reached the engine."""

    method: str
    target: str
    headers: dict[str, str]
    content: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


@dataclass
class Answer:
    """What the engine answers: a body, or parts that come in their own time."""

    status: int = 200
    headers: Headers = field(default_factory=list)
    content: bytes = b""
    stream: AsyncIterator[bytes] | None = None

    async def parts(self) -> AsyncIterator[bytes]:
        if self.stream is None:
            yield self.content
        else:
            async for part in self.stream:
                yield part


Handler = Callable[[Request], Awaitable[Answer]]


def as_json(value: Any, status: int = 200) -> Answer:
    """An answer of JSON."""
    return Answer(status, [(b"content-type", b"application/json")], json.dumps(value).encode())


def make_config(engine: str = "llamacpp", **changes: Any) -> Config:
    """Settings of a gateway for one model with two names."""
    values: dict[str, Any] = {"model_path": "/models/m", "model_names": (ALIAS, HUB_ID), "api_key": KEY}
    start = Start(**asdict(engines.load(engine).start))
    return Config(engine=engine, start=start, **{**values, **changes})


class FakeProcess:
    """An engine process that is in the state a test says."""

    def __init__(self) -> None:
        self.state = "ready"
        self.pid: int | None = 42
        self.stopped: int | None = None
        self.cpu: Callable[[], float] = lambda: 7.0

    def stopped_process(self) -> int | None:
        return self.stopped

    def cpu_seconds(self) -> float:
        return self.cpu()


class FakeEngine:
    """An Upstream that notes every request and answers with what a test put in `answers` for its path."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.models: list[str] = [ALIAS]
        self.tools_in_template = True
        self.answers: dict[str, Handler] = {}

    @asynccontextmanager
    async def open(self, method: str, target: bytes, headers: Headers, body: bytes) -> AsyncIterator[UpstreamAnswer]:
        texts = {name.decode(): value.decode() for name, value in headers}
        request = Request(method, target.decode(), texts, body)
        self.requests.append(request)
        yield await self._answer(request)

    def seen(self, path: str) -> list[Request]:
        return [request for request in self.requests if request.path == path]

    def body(self, path: str = CHAT) -> Any:
        """The JSON body of the last request to a path."""
        return json.loads(self.seen(path)[-1].content)

    async def _answer(self, request: Request) -> Answer:
        if handler := self.answers.get(request.path):
            return await handler(request)
        if request.path == "/v1/models":
            return as_json({"data": [{"id": name} for name in self.models]})
        if request.path == "/props":
            return as_json({"chat_template_caps": {"supports_tools": self.tools_in_template}})
        if request.path == "/metrics":
            return Answer(404)
        return as_json({"answer": True})


@dataclass
class RawCall:
    """One ASGI call made by hand: what came back, event by event, and a connection that can be cut."""

    path: str = CHAT
    body: bytes = b'{"messages": []}'
    method: str = "POST"
    headers: list[tuple[bytes, bytes]] = field(default_factory=lambda: [(b"x-api-key", KEY.encode())])
    sent: list[Message] = field(default_factory=list)
    cut: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, app: ASGIApp) -> None:
        scope = {
            "type": "http",
            "method": self.method,
            "path": self.path,
            "raw_path": self.path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": self.headers,
        }
        delivered = False

        async def receive() -> Message:
            nonlocal delivered
            if not delivered:
                delivered = True
                return {"type": "http.request", "body": self.body, "more_body": False}
            await self.cut.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            self.sent.append(message)
            self.arrived.set()

        await app(scope, receive, send)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def parts(self) -> list[bytes]:
        """The body's parts as they came."""
        return [message["body"] for message in self.sent[1:] if message["body"]]

    @property
    def complete(self) -> bool:
        """Whether the answer was ended properly."""
        return bool(self.sent) and not self.sent[-1].get("more_body", False)
