"""What stands in front of Ray's dashboard passes everything on, whole and as it comes, and adds the token."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import BaseTestServer, TestClient, TestServer

DEV = Path(__file__).resolve().parents[3] / "docker" / "dev"
TOKEN = "0123abcd"


def loaded(name: str) -> Any:
    """A program of the image as a module."""
    spec = importlib.util.spec_from_file_location(name, DEV / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


gate_rules = loaded("gate_rules")
dashboard_gate = loaded("dashboard_gate")
Clients = dict[str, "TestClient[web.Request, web.Application]"]


async def dashboard(request: web.Request) -> web.StreamResponse:
    """A stand-in for Ray's dashboard: says what came, streams, closes early, speaks WebSocket."""
    if request.headers.get("Authorization") != f"Bearer {TOKEN}":
        return web.Response(status=401)
    if request.path == "/socket":
        socket = web.WebSocketResponse(protocols=["two"])
        await socket.prepare(request)
        async for message in socket:
            if message.data == "bye":
                await socket.close(code=4001)
            elif message.type is aiohttp.WSMsgType.TEXT:
                await socket.send_str(message.data.upper())
            else:
                await socket.send_bytes(message.data[::-1])
        return socket
    if request.path in ("/stream", "/cut"):
        stream = web.StreamResponse()
        await stream.prepare(request)
        await stream.write(b"first\n")
        if request.path == "/cut":
            assert request.transport is not None
            request.transport.abort()
        else:
            await request.app[GO_ON].wait()
            await stream.write(b"second\n")
        return stream
    said = {
        "path": request.raw_path,
        "body": (await request.read()).decode(),
        "headers": {name.lower(): value for name, value in request.headers.items()},
    }
    return web.json_response(said)


GO_ON: web.AppKey[asyncio.Event] = web.AppKey("go on", asyncio.Event)


@pytest_asyncio.fixture
async def behind() -> AsyncIterator[BaseTestServer]:
    """The stand-in, listening."""
    app = web.Application(client_max_size=0)
    app[GO_ON] = asyncio.Event()
    app.router.add_route("*", "/{path:.*}", dashboard)
    async with TestServer(app) as server:
        yield server


@pytest_asyncio.fixture
async def clients(behind: BaseTestServer) -> AsyncIterator[Clients]:
    """Clients of the relay in `dev`, of the gate, and of the gate with RAY_AUTH=off."""
    made: Clients = {}
    for name, role, environ in (("relay", "relay", {}), ("gate", "gate", {}), ("off", "gate", OFF)):
        judge = dashboard_gate.judge_for(role, TOKEN, environ)
        app = dashboard_gate.application(dashboard_gate.Gate(judge, TOKEN, f"http://127.0.0.1:{behind.port}"))
        made[name] = TestClient(TestServer(app))
        await made[name].start_server()
    yield made
    for client in made.values():
        await client.close()


OFF = {"RAY_AUTH_MODE": "disabled"}


@pytest.mark.asyncio
async def test_the_relay_adds_the_token_and_takes_away_what_a_browser_says(clients: Clients) -> None:
    own = f"http://127.0.0.1:{clients['relay'].port}"
    headers = {"Origin": own, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "X-Kept": "1"}
    answer = await clients["relay"].post("/api/jobs/a%2Fb?y=%20z", data=b"hello", headers=headers)
    said = await answer.json()
    assert (said["path"], said["body"]) == ("/api/jobs/a%2Fb?y=%20z", "hello")
    assert said["headers"]["x-kept"] == "1"
    assert not {"origin", "sec-fetch-site", "sec-fetch-mode"} & set(said["headers"])


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "dev:8265"},
        {"Host": "[::1"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://[::1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_what_another_site_causes_is_refused(clients: Clients, headers: dict[str, str]) -> None:
    for name in ("relay", "off"):
        assert (await clients[name].get("/", headers=headers)).status == 403
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            await clients[name].ws_connect("/socket", headers=headers)


@pytest.mark.asyncio
async def test_a_forwarded_port_may_have_any_number(clients: Clients) -> None:
    headers = {"Host": "localhost:54321", "Origin": "http://localhost:54321", "Sec-Fetch-Site": "same-origin"}
    assert (await clients["relay"].get("/", headers=headers)).status == 200


@pytest.mark.asyncio
async def test_only_the_gate_asks_for_the_token(clients: Clients) -> None:
    assert {name: (await client.get("/")).status for name, client in clients.items()} == {
        "relay": 200, "gate": 401, "off": 200,
    }  # fmt: skip
    assert (await clients["gate"].get("/", headers={"Authorization": f"Bearer {TOKEN}"})).status == 200


@pytest.mark.asyncio
async def test_an_answer_is_passed_on_as_it_comes(clients: Clients, behind: BaseTestServer) -> None:
    answer = await clients["relay"].get("/stream")
    assert await answer.content.readline() == b"first\n"
    assert isinstance(behind, TestServer)
    behind.app[GO_ON].set()
    assert await answer.content.read() == b"second\n"


@pytest.mark.asyncio
async def test_an_answer_that_is_cut_short_is_not_taken_for_a_whole_one(clients: Clients) -> None:
    answer = await clients["relay"].get("/cut")
    with pytest.raises(aiohttp.ClientError):
        await answer.read()


@pytest.mark.asyncio
async def test_websockets(clients: Clients) -> None:
    async with clients["relay"].ws_connect("/socket", protocols=["one", "two"]) as socket:
        assert socket.protocol == "two"
        await socket.send_str("hello")
        assert await socket.receive_str() == "HELLO"
        await socket.send_bytes(b"abc")
        assert await socket.receive_bytes() == b"cba"
        await socket.send_str("bye")
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
        assert socket.close_code == 4001


@pytest.mark.asyncio
async def test_a_dashboard_that_is_gone_is_said(clients: Clients, behind: BaseTestServer) -> None:
    await behind.close()
    assert (await clients["relay"].get("/")).status == 502
    with pytest.raises(aiohttp.WSServerHandshakeError, match="502"):
        await clients["relay"].ws_connect("/socket")


@pytest.mark.asyncio
async def test_no_path_leads_to_another_host(clients: Clients, behind: BaseTestServer) -> None:
    for path in ("@127.0.0.1:1/", "http://127.0.0.1:1/", ".example.com/"):
        reader, writer = await asyncio.open_connection("127.0.0.1", clients["relay"].port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        first = await reader.readline()
        writer.close()
        assert first.split()[1] == b"400", (path, first)
