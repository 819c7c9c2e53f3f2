"""Passes requests to the engine and its answers back, byte for byte and as they come."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from starlette.types import Receive, Scope, Send

from gateway.api_errors import error_event, error_response
from gateway.incoming import Answered, RequestCheck
from gateway.progress import Exchange, Progress
from gateway.refusals import GENERATION, api_of
from gateway.upstream import Upstream, UpstreamAnswer, UpstreamError

_LOG = logging.getLogger("gateway")

# Between two neighbours only (RFC 9110, 7.6.1), or set anew by the client library; the key is the gateway's matter.
_HOP_BY_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer",
     b"transfer-encoding", b"upgrade")
)  # fmt: skip
_NOT_FORWARDED = _HOP_BY_HOP | {b"host", b"content-length", b"expect", b"authorization", b"x-api-key"}
_NOT_RETURNED = _HOP_BY_HOP | {b"server", b"date"}


class Proxy:
    """ASGI application: the engine's own API behind the request check."""

    def __init__(self, upstream: Upstream, check: RequestCheck, progress: Progress) -> None:
        self._upstream = upstream
        self._check = check
        self._progress = progress
        self.loading = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if self.loading:
            message = "The engine is still loading its model; try again in a moment."
            response = error_response(scope["path"], 503, message, headers={"Retry-After": "2"})
            await response(scope, receive, send)
            return
        body = await _read_body(receive)
        if body is None:
            return
        try:
            body = await self._check.checked(scope, body)
        except Answered as answered:
            await answered.response(scope, receive, send)
            return
        await self._exchange_while_connected(scope, body, receive, send)

    async def _exchange_while_connected(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """A client that goes away takes its request with it: a closed connection is how the engine frees the slot.

        llama.cpp notices it at once in a stream. Without streaming it looks only after a second in which none of its
        requests finished or asked for anything, so on a busy server an abandoned request runs to its end.
        """
        exchange = asyncio.ensure_future(self._exchange(scope, body, send))
        gone = asyncio.ensure_future(_until_disconnect(receive))
        try:
            await asyncio.wait((exchange, gone), return_when=asyncio.FIRST_COMPLETED)
            if exchange.done():
                await exchange
        finally:
            exchange.cancel()
            gone.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await exchange

    async def _exchange(self, scope: Scope, body: bytes, send: Send) -> None:
        path: str = scope["path"]
        generates = scope["method"] == "POST" and api_of(path) in GENERATION
        with Exchange(self._progress, generates=generates) as exchange:
            headers = [(name, value) for name, value in scope["headers"] if name not in _NOT_FORWARDED]
            try:
                async with self._upstream.open(scope["method"], _target(scope), headers, body) as answer:
                    await self._pass_back(path, answer, exchange, send)
            except UpstreamError as error:
                exchange.finished(502)
                message = f"The engine did not answer ({error}). See the log of the inference service."
                _LOG.warning("%s %s: 502, %s", scope["method"], path, error)
                await error_response(path, 502, message, code="engine_unreachable")(scope, _nothing_more, send)

    async def _pass_back(self, path: str, answer: UpstreamAnswer, exchange: Exchange, send: Send) -> None:
        headers = [(name, value) for name, value in answer.headers if name not in _NOT_RETURNED]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        try:
            async for data in answer.parts():
                exchange.chunk(data)
                await send({"type": "http.response.body", "body": data, "more_body": True})
        except UpstreamError as error:
            exchange.finished(502)
            _LOG.warning("%s: the engine broke off its answer, %s", path, error)
            message = f"The engine broke off its answer ({error}). See the log of the inference service."
            if dict(headers).get(b"content-type", b"").startswith(b"text/event-stream"):
                await send({"type": "http.response.body", "body": error_event(path, message), "more_body": True})
            # Not finished properly, so the server cuts the connection: half an answer must not look like a whole one.
            return
        exchange.finished(answer.status)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _target(scope: Scope) -> bytes:
    """Path and query as the caller wrote them."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    return path.partition(b"?")[0] + (b"?" + query if query else b"")


async def _read_body(receive: Receive) -> bytes | None:
    """The whole body, or None when the client left before it was sent."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _nothing_more() -> dict[str, str]:
    """Stands in for `receive` where a response does not read: the real one is being waited on for the disconnect."""
    return {"type": "http.disconnect"}
