"""The connection to the engine, against a socket that says exactly what a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from gateway.aiohttp_upstream import AiohttpUpstream
from gateway.upstream import UpstreamError

pytestmark = pytest.mark.asyncio

Peer = Callable[[bytes, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def engine(peer: Peer) -> AsyncIterator[AiohttpUpstream]:
    """A server on the loopback that hands each request's head to `peer`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await peer(await reader.readuntil(b"\r\n\r\n"), reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, AiohttpUpstream(f"http://127.0.0.1:{port}") as upstream:
        yield upstream


async def test_the_request_goes_over_as_it_is() -> None:
    heads: list[bytes] = []

    async def peer(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(head + await reader.readexactly(4))
        writer.write(b"HTTP/1.1 202 Accepted\r\nX-Odd: \xc3\xa9\r\ncontent-length: 2\r\n\r\nok")

    async with engine(peer) as upstream:
        headers = [(b"x-a", b"1"), (b"x-a", b"2")]
        async with upstream.open("POST", b"/a%2Fb//c?q=%20+1", headers, b"body") as answer:
            assert answer.status == 202
            assert (b"x-odd", b"\xc3\xa9") in answer.headers
            assert b"".join([part async for part in answer.parts()]) == b"ok"
    lines = heads[0].split(b"\r\n")
    assert lines[0] == b"POST /a%2Fb//c?q=%20+1 HTTP/1.1"
    assert lines.count(b"x-a: 1") == lines.count(b"x-a: 2") == 1
    assert lines[-1] == b"body"
    names = {line.partition(b":")[0].lower() for line in lines[1:-2]}
    assert names <= {b"host", b"x-a", b"content-length", b"connection"}


async def test_parts_come_as_they_are_written() -> None:
    go_on = asyncio.Event()

    async def peer(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n")
        await go_on.wait()
        writer.write(b"3\r\ntwo\r\n0\r\n\r\n")

    async with engine(peer) as upstream, upstream.open("GET", b"/", [], b"") as answer:
        parts = answer.parts()
        assert await anext(parts) == b"one"
        go_on.set()
        assert await anext(parts) == b"two"
        with pytest.raises(StopAsyncIteration):
            await anext(parts)


async def test_leaving_closes_the_connection() -> None:
    closed = asyncio.Event()

    async def peer(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n")
        assert await reader.read() == b""
        closed.set()

    async with engine(peer) as upstream:
        async with upstream.open("GET", b"/", [], b"") as answer:
            assert await anext(answer.parts()) == b"one"
        await asyncio.wait_for(closed.wait(), timeout=10)


async def test_a_cancelled_wait_for_the_head_closes_the_connection() -> None:
    reached, closed = asyncio.Event(), asyncio.Event()

    async def peer(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.set()
        assert await reader.read() == b""
        closed.set()

    async def ask(upstream: AiohttpUpstream) -> None:
        async with upstream.open("GET", b"/", [], b""):
            pytest.fail("no head was sent")

    async with engine(peer) as upstream:
        asking = asyncio.create_task(ask(upstream))
        await reached.wait()
        asking.cancel()
        await asyncio.wait_for(closed.wait(), timeout=10)


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 nonsense\r\n\r\n"])
async def test_no_answer_is_an_error(head: bytes) -> None:
    async def peer(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)

    async with engine(peer) as upstream:
        with pytest.raises(UpstreamError):
            async with upstream.open("GET", b"/", [], b""):
                pytest.fail("there was no answer")


async def test_nobody_listening_is_an_error() -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    async with AiohttpUpstream(f"http://127.0.0.1:{port}") as upstream:
        with pytest.raises(UpstreamError, match="ClientConnectorError"):
            async with upstream.open("GET", b"/", [], b""):
                pytest.fail("nobody was there")


@pytest.mark.parametrize("body", [b"transfer-encoding: chunked\r\n\r\n3\r\none\r\n", b"content-length: 10\r\n\r\none"])
async def test_a_body_that_breaks_off_is_an_error(body: bytes) -> None:
    async def peer(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n" + body)

    async with engine(peer) as upstream, upstream.open("GET", b"/", [], b"") as answer:
        with pytest.raises(UpstreamError):
            _ = [part async for part in answer.parts()]


async def test_redirects_are_the_callers_to_follow() -> None:
    async def peer(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 307 Temporary Redirect\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n")

    async with engine(peer) as upstream, upstream.open("POST", b"/", [], b"x") as answer:
        assert answer.status == 307
