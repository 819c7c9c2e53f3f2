"""Nothing is answered without the key."""

from __future__ import annotations

import httpx2
import pytest

from gateway.app import Gateway
from tests.unit.gateway.support import CHAT, KEY, FakeEngine, RawCall

pytestmark = pytest.mark.asyncio

PATHS = ["/", "/health", "/metrics", "/v1/models", "/v1/models/x", CHAT, "/v1/messages", "/drydock/state", "/slots"]


def caller(gateway: Gateway, headers: dict[str, str]) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(app=gateway.app)
    return httpx2.AsyncClient(transport=transport, base_url="http://gateway", headers=headers)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "DELETE"])
async def test_no_key_is_refused_everywhere(gateway: Gateway, engine: FakeEngine, path: str, method: str) -> None:
    engine.requests.clear()
    async with caller(gateway, {}) as stranger:
        response = await stranger.request(method, path, content=b"{}")
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert engine.requests == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Bearer {KEY}x"},
        {"Authorization": f"Bearer {KEY[:-1]}"},
        {"Authorization": f"Basic {KEY}"},
        {"Authorization": KEY},
        {"Authorization": "Bearer "},
        {"x-api-key": "wrong"},
        {"x-api-key": ""},
    ],
)
async def test_a_wrong_key_is_refused(gateway: Gateway, headers: dict[str, str]) -> None:
    async with caller(gateway, headers) as stranger:
        assert (await stranger.get("/v1/models")).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": f"Bearer {KEY}"},
        {"Authorization": f"bearer {KEY}"},
        {"x-api-key": KEY},
        {"x-api-key": KEY, "Authorization": "Bearer of-another-service"},
    ],
)
async def test_the_key_opens(gateway: Gateway, headers: dict[str, str]) -> None:
    async with caller(gateway, headers) as owner:
        assert (await owner.get("/v1/models")).status_code == 200


async def test_the_refusal_has_the_format_of_the_api(gateway: Gateway) -> None:
    async with caller(gateway, {}) as stranger:
        openai = (await stranger.post(CHAT, json={})).json()
        anthropic = (await stranger.post("/v1/messages", json={})).json()
    assert openai["error"]["code"] == "invalid_api_key"
    assert "API key" in openai["error"]["message"]
    assert anthropic["type"] == "error"
    assert anthropic["error"]["type"] == "authentication_error"


async def test_the_key_stays_with_the_gateway(client: httpx2.AsyncClient, engine: FakeEngine) -> None:
    await client.post(CHAT, json={}, headers={"Authorization": f"Bearer {KEY}", "X-Trace": "7"})
    forwarded = engine.seen(CHAT)[-1].headers
    assert "authorization" not in forwarded
    assert "x-api-key" not in forwarded
    assert forwarded["x-trace"] == "7"


async def test_a_websocket_is_closed(gateway: Gateway) -> None:
    call = RawCall()

    async def receive() -> dict[str, str]:
        return {"type": "websocket.connect"}

    async def send(message: object) -> None:
        assert isinstance(message, dict)
        call.sent.append(message)

    await gateway.app({"type": "websocket", "path": "/v1/realtime", "headers": []}, receive, send)
    assert call.sent[0]["type"] == "websocket.close"
