"""Answers come back as the engine gives them: unchanged, in their parts, and no longer than somebody waits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import httpx2
import pytest

from gateway.app import Gateway
from gateway.upstream import UpstreamError
from tests.unit.gateway.support import (
    ALIAS,
    CHAT,
    Answer,
    FakeEngine,
    FakeProcess,
    RawCall,
    Request,
    as_json,
    make_config,
)

pytestmark = pytest.mark.asyncio

EVENT_STREAM = [(b"content-type", b"text/event-stream")]


async def test_status_headers_and_body_come_back(client: httpx2.AsyncClient, engine: FakeEngine) -> None:
    async def answer(request: Request) -> Answer:
        return Answer(418, [(b"x-engine", b"yes"), (b"connection", b"close")], b"short and stout")

    engine.answers["/odd"] = answer
    response = await client.request("PUT", "/odd?a=1&b=%2F", content=b"raw")
    assert (response.status_code, response.content) == (418, b"short and stout")
    assert response.headers["x-engine"] == "yes"
    assert "connection" not in response.headers
    seen = engine.seen("/odd")[-1]
    assert seen.method == "PUT"
    assert seen.target == "/odd?a=1&b=%2F"
    assert seen.content == b"raw"


async def test_an_encoded_path_stays_encoded(client: httpx2.AsyncClient, engine: FakeEngine) -> None:
    await client.get("/adapters/a%2Fb")
    assert engine.requests[-1].target == "/adapters/a%2Fb"


async def test_a_stream_passes_event_by_event(gateway: Gateway, engine: FakeEngine) -> None:
    more = asyncio.Event()

    async def events() -> AsyncIterator[bytes]:
        yield b"data: 1\n\n"
        await more.wait()
        yield b"data: 2\n\n"

    async def answer(request: Request) -> Answer:
        return Answer(200, EVENT_STREAM, stream=events())

    engine.answers[CHAT] = answer
    call = RawCall()
    running = asyncio.create_task(call.run(gateway.app))
    while len(call.parts) < 1:
        call.arrived.clear()
        await call.arrived.wait()
    # The second event does not exist yet, so the first was not held back.
    assert call.parts == [b"data: 1\n\n"]
    more.set()
    await running
    assert call.parts == [b"data: 1\n\n", b"data: 2\n\n"]
    assert call.complete


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_caller_who_leaves_ends_the_request_at_the_engine(
    gateway: Gateway, engine: FakeEngine, streaming: bool
) -> None:
    reached = asyncio.Event()
    given_up = asyncio.Event()

    async def wait_for_ever() -> None:
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()

    async def events() -> AsyncIterator[bytes]:
        yield b"data: 1\n\n"
        await wait_for_ever()

    async def answer(request: Request) -> Answer:
        if not streaming:
            await wait_for_ever()
        return Answer(200, EVENT_STREAM, stream=events())

    engine.answers[CHAT] = answer
    call = RawCall()
    running = asyncio.create_task(call.run(gateway.app))
    await reached.wait()
    assert gateway.progress.in_flight == 1
    call.cut.set()
    await running
    assert given_up.is_set()
    assert gateway.progress.in_flight == 0
    assert gateway.progress.completed == 0


async def test_a_caller_who_leaves_before_the_body_is_sent(gateway: Gateway, engine: FakeEngine) -> None:
    sent: list[object] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.disconnect"}

    async def send(message: object) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": CHAT, "query_string": b"", "headers": RawCall().headers}
    await gateway.app(scope, receive, send)
    assert engine.seen(CHAT) == []
    assert sent == []


@pytest.mark.parametrize("path", [CHAT, "/v1/messages"])
async def test_an_engine_that_cannot_be_reached(client: httpx2.AsyncClient, engine: FakeEngine, path: str) -> None:
    async def answer(request: Request) -> Answer:
        raise UpstreamError("ConnectionRefusedError: refused")

    engine.answers[path] = answer
    response = await client.post(path, json={})
    assert response.status_code == 502
    assert "ConnectionRefusedError: refused" in response.json()["error"]["message"]


async def test_a_stream_that_the_engine_breaks_off_ends_with_an_error(gateway: Gateway, engine: FakeEngine) -> None:
    async def events() -> AsyncIterator[bytes]:
        yield b'data: {"choices": ['
        raise UpstreamError("ReadError: gone")

    async def answer(request: Request) -> Answer:
        return Answer(200, EVENT_STREAM, stream=events())

    engine.answers[CHAT] = answer
    call = RawCall()
    await call.run(gateway.app)
    last_event = call.parts[-1].decode().strip()
    assert "ReadError: gone" in json.loads(last_event.removeprefix("data: "))["error"]["message"]
    assert not call.complete, "half an answer must not look like a whole one"
    assert gateway.progress.failed == 1


async def test_a_plain_answer_that_is_broken_off_is_cut(gateway: Gateway, engine: FakeEngine) -> None:
    async def half() -> AsyncIterator[bytes]:
        yield b'{"half": '
        raise UpstreamError("closed")

    async def answer(request: Request) -> Answer:
        return Answer(200, stream=half())

    engine.answers[CHAT] = answer
    call = RawCall()
    await call.run(gateway.app)
    assert call.parts == [b'{"half": ']
    assert not call.complete


@pytest.mark.parametrize("body", [b"{", b"", b"\xff\xfe", b'{"a": 1} x', b"[" * 100_000])
async def test_a_body_that_is_not_json(client: httpx2.AsyncClient, engine: FakeEngine, body: bytes) -> None:
    response = await client.post(CHAT, content=body)
    if body:
        assert response.status_code == 400
        assert "not valid JSON" in response.json()["error"]["message"]
        assert engine.seen(CHAT) == []
    else:
        assert engine.seen(CHAT)[-1].content == b"", "the engine says itself what an empty body lacks"


async def test_json_that_is_no_object_is_the_engines_to_judge(client: httpx2.AsyncClient, engine: FakeEngine) -> None:
    await client.post(CHAT, content=b"[1, 2]")
    assert engine.seen(CHAT)[-1].content == b"[1, 2]"


async def test_a_large_body_arrives_whole(client: httpx2.AsyncClient, engine: FakeEngine) -> None:
    text = "x" * 20_000_000
    await client.post(CHAT, json={"model": ALIAS.upper(), "messages": text})
    assert engine.body()["messages"] == text


async def test_while_the_model_loads_callers_are_told_to_wait(engine: FakeEngine, process: FakeProcess) -> None:
    starting = Gateway(make_config(), process, engine, engine_version="1")
    call = RawCall()
    await call.run(starting.app)
    assert call.status == 503
    assert "still loading" in json.loads(call.parts[0])["error"]["message"]
    assert engine.requests == []


async def test_uploads_are_refused_before_llama_cpp(client: httpx2.AsyncClient) -> None:
    response = await client.post("/v1/audio/transcriptions", files={"file": b"x"}, data={"model": "any"})
    assert response.status_code == 400


async def test_uploads_reach_vllm(vllm_client: httpx2.AsyncClient, engine: FakeEngine) -> None:
    response = await vllm_client.post("/v1/audio/transcriptions", files={"file": b"x"}, data={"model": "any"})
    assert response.status_code == 200
    assert b"any" in engine.seen("/v1/audio/transcriptions")[-1].content


async def test_512_requests_are_in_flight_together(gateway: Gateway, engine: FakeEngine) -> None:
    all_in = asyncio.Event()
    count = 0

    async def answer(request: Request) -> Answer:
        nonlocal count
        count += 1
        if count == 512:
            all_in.set()
        await all_in.wait()
        return as_json({})

    engine.answers[CHAT] = answer
    calls = [RawCall() for _ in range(512)]
    await asyncio.wait_for(asyncio.gather(*(call.run(gateway.app) for call in calls)), timeout=60)
    assert {call.status for call in calls} == {200}


async def test_state_tells_what_runs(client: httpx2.AsyncClient) -> None:
    await client.post(CHAT, json={})
    state = (await client.get("/drydock/state")).json()
    assert state["engine"] == "llamacpp"
    assert state["engine_version"] == "1.2.3"
    assert state["engine_pid"] == 42
    assert state["completed"] == 1
    assert state["in_flight"] == 0
    assert state["seconds_since_completed"] >= 0
    assert state["model_names"][0] == state["served_name"] == ALIAS


async def test_a_mistake_of_the_gateways_own_is_json_too(gateway: Gateway, engine: FakeEngine) -> None:
    async def answer(request: Request) -> Answer:
        raise KeyError("a bug")

    engine.answers[CHAT] = answer
    call = RawCall()
    with pytest.raises(KeyError):  # Starlette raises it again for the server's log
        await call.run(gateway.app)
    assert call.status == 500
    assert "KeyError" in json.loads(call.parts[0])["error"]["message"]
