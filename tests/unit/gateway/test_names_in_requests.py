"""A model answers to all its names in any letter case, and to nothing else."""

from __future__ import annotations

import json

import httpx2
import pytest

from tests.unit.gateway.support import ALIAS, CHAT, HUB_ID, FakeEngine

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize("name", [ALIAS.upper(), HUB_ID, HUB_ID.lower()])
async def test_the_engine_gets_its_own_name(client: httpx2.AsyncClient, engine: FakeEngine, name: str) -> None:
    body = {"model": name, "messages": [{"role": "user", "content": "é\ud800"}], "temperature": 0.1}
    response = await client.post(CHAT, content=json.dumps(body))
    assert response.status_code == 200
    assert engine.body() == {**body, "model": ALIAS}


async def test_a_body_that_needs_no_change_is_not_touched(client: httpx2.AsyncClient, engine: FakeEngine) -> None:
    body = b'{ "model":"%s",  "seed": 1e2 }' % ALIAS.encode()
    await client.post(CHAT, content=body)
    assert engine.seen(CHAT)[-1].content == body


@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/v1/messages", "/v1/responses"])
async def test_a_missing_name_means_the_served_model(client: httpx2.AsyncClient, engine: FakeEngine, path: str) -> None:
    response = await client.post(path, json={"max_tokens": 5})
    assert response.status_code == 200
    assert engine.body(path)["model"] == ALIAS


@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/v1/embeddings", "/tokenize", "/anything"])
async def test_an_unknown_name_is_an_error(client: httpx2.AsyncClient, engine: FakeEngine, path: str) -> None:
    response = await client.post(path, json={"model": "gpt-4"})
    assert response.status_code == 404
    error = response.json()["error"]
    assert error["code"] == "model_not_found"
    assert "'gpt-4'" in error["message"]
    assert ALIAS in error["message"]
    assert HUB_ID in error["message"]
    assert engine.seen(path) == []


async def test_an_unknown_name_on_the_anthropic_api(client: httpx2.AsyncClient) -> None:
    response = await client.post("/v1/messages", json={"model": "claude"})
    assert response.status_code == 404
    assert response.json()["error"]["type"] == "not_found_error"


async def test_an_adapter_loaded_later_is_found(client: httpx2.AsyncClient, engine: FakeEngine) -> None:
    assert (await client.post(CHAT, json={"model": "tuned"})).status_code == 404
    engine.models.append("tuned")
    assert (await client.post(CHAT, json={"model": "Tuned"})).status_code == 200
    assert engine.body()["model"] == "tuned"


@pytest.mark.parametrize("name", [1, ["a"], {"a": 1}, True])
async def test_a_name_that_is_no_string(client: httpx2.AsyncClient, name: object) -> None:
    response = await client.post(CHAT, json={"model": name})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "model"


async def test_the_listing_has_every_name(client: httpx2.AsyncClient) -> None:
    listing = (await client.get("/v1/models")).json()
    assert listing["object"] == "list"
    assert [model["id"] for model in listing["data"]] == [ALIAS, HUB_ID]
    assert listing["has_more"] is False
    assert {model["root"] for model in listing["data"]} == {ALIAS}


@pytest.mark.parametrize("path", [HUB_ID.lower(), HUB_ID.replace("/", "%2F")])
async def test_one_model_is_found(client: httpx2.AsyncClient, path: str) -> None:
    response = await client.get(f"/v1/models/{path}")
    assert response.status_code == 200
    assert response.json()["object"] == "model"


async def test_one_model_that_is_not_served(client: httpx2.AsyncClient) -> None:
    response = await client.get("/v1/models/gpt-4")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"
