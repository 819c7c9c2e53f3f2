"""Stand-ins for the engine, its process and a caller whose connection can be cut."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2
from starlette.types import ASGIApp, Message

from gateway.config import Config

KEY = "the-key"
ALIAS = "smollm2-135m"
HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
CHAT = "/v1/chat/completions"

Handler = Callable[[httpx2.Request], Awaitable[httpx2.Response]]


def make_config(engine: str = "llamacpp", **changes: Any) -> Config:
    """Settings of a gateway for one model with two names."""
    values: dict[str, Any] = {"model_path": "/models/m", "model_names": (ALIAS, HUB_ID), "api_key": KEY}
    return Config(engine=engine, **{**values, **changes})


class FakeProcess:
    """An engine process that is in the state a test says."""

    def __init__(self) -> None:
        self.state = "ready"
        self.pid: int | None = 42
        self.stopped: int | None = None

    def stopped_process(self) -> int | None:
        return self.stopped


class FakeEngine:
    """An engine that notes every request and answers with what a test put in `answers` for its path."""

    def __init__(self) -> None:
        self.requests: list[httpx2.Request] = []
        self.models: list[str] = [ALIAS]
        self.tools_in_template = True
        self.answers: dict[str, Handler] = {}

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self._answer), base_url="http://127.0.0.1:8000")

    def seen(self, path: str) -> list[httpx2.Request]:
        return [request for request in self.requests if request.url.path == path]

    def body(self, path: str = CHAT) -> Any:
        """The JSON body of the last request to a path."""
        return json.loads(self.seen(path)[-1].content)

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._whole_answer(request)
        if not answer.is_stream_consumed:
            return answer
        # What was given whole has been read already; over a network it would not have been.
        return httpx2.Response(answer.status_code, headers=answer.headers, stream=Chunks(_once(answer.content)))

    async def _whole_answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        if handler := self.answers.get(request.url.path):
            return await handler(request)
        if request.url.path == "/v1/models":
            return httpx2.Response(200, json={"data": [{"id": name} for name in self.models]})
        if request.url.path == "/props":
            return httpx2.Response(200, json={"chat_template_caps": {"supports_tools": self.tools_in_template}})
        if request.url.path == "/metrics":
            return httpx2.Response(404)
        return httpx2.Response(200, json={"answer": True})


class Chunks(httpx2.AsyncByteStream):
    """A response body that comes in parts, and tells when it was closed."""

    def __init__(self, parts: AsyncIterator[bytes]) -> None:
        self._parts = parts
        self.closed = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._parts:
            yield part

    async def aclose(self) -> None:
        self.closed.set()


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


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
