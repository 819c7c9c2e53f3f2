"""The two that answer, inside the process and on a port: the same answers, for the same recording."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from harness.openai_api.calls import Call
from harness.openai_api.http import Endpoint
from harness.openai_api.loopback import Loopback
from harness.openai_api.observer import Observer
from harness.openai_api.proxy import RecordingProxy
from harness.openai_api.recording.inside import Inside
from harness.openai_api.recording.matching import Matcher
from harness.openai_api.recording.player import Player
from harness.openai_api.recording.store import Recording, Writer, read_run
from harness.runs import Redactor
from tests.support.fake_model import KEY, MODEL, FakeModel

MESSAGES: list[Any] = [{"role": "user", "content": "hi"}]
Use = Callable[[Any], Awaitable[Any]]


def record(folder: Path, transport: Any, use: Use, run: int = 7) -> Any:
    """Use a server through the recording proxy."""
    writer = Writer.create(folder, {"model": MODEL, "base_path": "/v1"}, Redactor())
    writer.begin_run(run, {})

    async def main() -> Any:
        endpoint = Endpoint.parse("http://fake/v1", KEY)
        async with RecordingProxy(endpoint, recorder=writer, transport=transport) as proxy:
            observer = Observer(lambda _call, _origin: None, ours=proxy.origin)
            observer.install()
            observer.begin(run)
            try:
                return await use(client(proxy, proxy.open_run(run)))
            finally:
                observer.remove()

    return asyncio.run(asyncio.wait_for(main(), 30))


def replay(folder: Path, use: Use, *, inside: bool, run: int = 7, calls: list[Call] | None = None) -> Any:
    """Use the recording in the server's place."""
    told: list[str] = []

    async def main() -> Any:
        async with Player(Recording.open(folder), take=(calls if calls is not None else []).append) as player:
            key = player.open_run(run)
            observer = Observer(lambda _call, _origin: None, ours=player.origin)
            observer.begin(run)
            stand_in = Inside(
                player.origin,
                lambda run: Matcher(run, read_run(folder, run).exchanges),
                lambda event, **_: told.append(event),
            )
            if inside:
                stand_in.install()
            try:
                return await use(client(player, key))
            finally:
                stand_in.remove()

    result = asyncio.run(asyncio.wait_for(main(), 30))
    assert bool(told) is inside
    return result


def client(port: Loopback, key: str) -> openai.AsyncOpenAI:
    # Certificates take longer to read than all the rest.
    plain = httpx2.AsyncClient(verify=False, timeout=5)
    return openai.AsyncOpenAI(base_url=port.base_url, api_key=key, max_retries=1, timeout=5, http_client=plain)


def broken(kind: str) -> Any:
    """A server that answers in a way that hurts."""

    class Stream(httpx2.AsyncByteStream):
        async def __aiter__(self) -> Any:
            for number in range(3):
                yield f'data: {{"choices": [{{"index": 0, "delta": {{"content": "{number}"}}}}]}}\n\n'.encode()
            raise httpx2.ReadError("reset")

    def handle(request: httpx2.Request) -> httpx2.Response:
        if kind == "429":
            headers = {"retry-after-ms": "1", "set-cookie": "a=b", "x-request-id": "req-1"}
            return httpx2.Response(429, headers=headers, json={"error": {"message": "slow down"}})
        if kind == "500":
            return httpx2.Response(500, text="it broke")
        if kind == "cut":
            return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Stream())
        raise httpx2.ConnectError("no") from ConnectionRefusedError(111, "refused")

    return httpx2.MockTransport(handle)


async def chat(client: openai.AsyncOpenAI, **more: Any) -> Any:
    """What a chat ends in: the text, or the error."""
    try:
        answer = await client.chat.completions.create(model=MODEL, messages=MESSAGES, **more)
        if not more.get("stream"):
            return answer.model_dump()
        return [part.model_dump() async for part in answer]
    except openai.APIStatusError as error:
        return type(error).__name__, error.status_code, error.message, error.request_id
    except (openai.APIError, httpx2.HTTPError) as error:
        return type(error).__name__, str(error)
    finally:
        await client.close()


@pytest.mark.parametrize("inside", [True, False], ids=["inside", "port"])
@pytest.mark.parametrize("kind", ["good", "stream", "429", "500", "cut", "refused"])
def test_what_was_recorded_comes_again(tmp_path: Path, kind: str, inside: bool) -> None:
    model = FakeModel(text="Paris is fine")
    transport = model.transport() if kind in ("good", "stream") else broken(kind)
    more: dict[str, Any] = {"stream": True} if kind in ("stream", "cut") else {}

    async def use(client: openai.AsyncOpenAI) -> Any:
        return await chat(client, **more)

    before = record(tmp_path / "tape", transport, use)
    asked = len(model.requests)
    assert replay(tmp_path / "tape", use, inside=inside) == before
    assert len(model.requests) == asked
    exchanges = read_run(tmp_path / "tape", 7).exchanges
    assert all(exchange.in_process for exchange in exchanges)
    # An SDK tries again what failed, and gets the second answer then.
    assert len(exchanges) == (2 if kind in ("429", "500", "refused") else 1)
    assert "set-cookie" not in str(exchanges)


@pytest.mark.parametrize("inside", [True, False], ids=["inside", "port"])
def test_a_call_that_was_not_recorded_is_an_error_that_is_not_retried(tmp_path: Path, inside: bool) -> None:
    async def good(client: openai.AsyncOpenAI) -> Any:
        return await chat(client)

    async def other(client: openai.AsyncOpenAI) -> Any:
        return await chat(client, temperature=0.3)

    record(tmp_path / "tape", FakeModel().transport(), good)
    calls: list[Call] = []
    kind, status, message, _ = replay(tmp_path / "tape", other, inside=inside, calls=calls)
    assert (kind, status) == ("BadRequestError", 400)
    assert "was not recorded: nearest is call 1 of 1" in message
    assert "temperature: not recorded, asked 0.3" in message
    assert len(calls) == (0 if inside else 1)


@pytest.mark.parametrize("inside", [True, False], ids=["inside", "port"])
def test_a_call_that_was_given_up_is_given_up_again(tmp_path: Path, inside: bool) -> None:
    forever = asyncio.Event()

    class Never(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            await forever.wait()
            raise AssertionError

    async def use(client: openai.AsyncOpenAI) -> Any:
        return await chat(client.with_options(timeout=0.3, max_retries=0))

    before = record(tmp_path / "tape", Never(), use)
    assert before[0] == "APITimeoutError"
    assert replay(tmp_path / "tape", use, inside=inside) == before
    assert [exchange.end for exchange in read_run(tmp_path / "tape", 7).exchanges] == ["abandoned"]


def test_the_port_asks_for_the_runs_key(tmp_path: Path) -> None:
    async def good(client: openai.AsyncOpenAI) -> Any:
        return await chat(client)

    record(tmp_path / "tape", FakeModel().transport(), good)

    async def stranger(client: openai.AsyncOpenAI) -> Any:
        return await chat(client.with_options(api_key="sk-other"))

    assert replay(tmp_path / "tape", stranger, inside=False)[:2] == ("AuthenticationError", 401)


def test_runs_are_apart(tmp_path: Path) -> None:
    """The same request in two runs; each gets its own answer, whoever asks first."""
    folder = tmp_path / "tape"
    model = FakeModel()
    writer = Writer.create(folder, {"base_path": "/v1"}, Redactor())

    async def ask(port: Loopback, run: int) -> str:
        async with client(port, port.open_run(run)) as sdk:
            return str((await sdk.chat.completions.create(model=MODEL, messages=MESSAGES)).id)

    async def recording() -> list[str]:
        endpoint = Endpoint.parse("http://fake/v1", KEY)
        async with RecordingProxy(endpoint, recorder=writer, transport=model.transport()) as proxy:
            return [await ask(proxy, run) for run in range(4)]

    async def replaying() -> list[str]:
        async with Player(Recording.open(folder)) as player:
            return [await ask(player, run) for run in (3, 1, 0, 2)]

    ids = asyncio.run(recording())
    assert asyncio.run(replaying()) == [ids[3], ids[1], ids[0], ids[2]]


def test_calls_elsewhere_go_where_they_should(tmp_path: Path) -> None:
    stand_in = Inside("http://127.0.0.1:1", lambda _run: pytest.fail("not ours"), lambda *_a, **_k: None)
    stand_in.install()
    try:
        with FakeModel(key="").serving() as base_url, httpx2.Client() as sync:
            assert sync.get(base_url + "/models").json()["data"][0]["id"] == MODEL
    finally:
        stand_in.remove()


def test_sync_clients_are_answered_inside_too(tmp_path: Path) -> None:
    async def good(client: openai.AsyncOpenAI) -> Any:
        return await chat(client)

    before = record(tmp_path / "tape", FakeModel().transport(), good)
    stand_in = Inside(
        "http://127.0.0.1:1", lambda run: Matcher(run, read_run(tmp_path / "tape", 7).exchanges), lambda *_a, **_k: None
    )
    stand_in.install()
    try:
        with openai.OpenAI(
            base_url="http://127.0.0.1:1/v1", api_key="x", http_client=httpx2.Client(verify=False)
        ) as sdk:
            answer = sdk.chat.completions.create(model=MODEL, messages=MESSAGES)
    finally:
        stand_in.remove()
    assert json.dumps(answer.model_dump()) == json.dumps(before)
