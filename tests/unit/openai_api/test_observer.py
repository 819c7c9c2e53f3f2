from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest

from harness.openai_api.calls import Call
from harness.openai_api.observer import Observer
from tests.support.fake_model import KEY, MODEL, FakeModel

MESSAGES: list[Any] = [{"role": "user", "content": "hi"}]
Seen = list[tuple[Call, str]]


@pytest.fixture
def seen() -> Iterator[Seen]:
    found: Seen = []
    observer = Observer(lambda call, origin: found.append((call, origin)))
    observer.install()
    yield found
    observer.remove()


def client(model: FakeModel) -> openai.AsyncOpenAI:
    own = httpx2.AsyncClient(transport=model.transport())
    return openai.AsyncOpenAI(base_url="http://fake:81/v1", api_key=KEY, http_client=own, max_retries=0)


def test_a_call_of_the_async_sdk_is_seen(seen: Seen) -> None:
    async def main() -> None:
        completion = await client(FakeModel(text="hello")).chat.completions.create(model=MODEL, messages=MESSAGES)
        assert completion.choices[0].message.content == "hello"

    asyncio.run(main())
    ((call, origin),) = seen
    assert origin == "http://fake:81"
    assert (call.path, call.status, call.ok) == ("/v1/chat/completions", 200, True)
    assert call.reply is not None
    assert (call.reply.text, call.reply.completion_tokens) == ("hello", 4)


def test_a_call_of_the_sync_sdk_is_seen(seen: Seen) -> None:
    own = httpx2.Client(transport=FakeModel(text="hello").transport())
    sdk = openai.OpenAI(base_url="http://fake/v1", api_key=KEY, http_client=own)
    sdk.chat.completions.create(model=MODEL, messages=MESSAGES)
    assert [call.reply.text for call, _ in seen if call.reply] == ["hello"]


def test_a_stream_is_seen_once_and_whole(seen: Seen) -> None:
    async def main() -> None:
        stream = await client(FakeModel(text="one two")).chat.completions.create(
            model=MODEL, messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        )
        async for _ in stream:
            pass
        await stream.close()

    asyncio.run(main())
    ((call, _),) = seen
    assert call.streamed
    assert call.reply is not None
    assert (call.reply.text, call.reply.completion_tokens) == ("onetwo", 4)


def test_a_compressed_stream_is_understood(seen: Seen) -> None:
    raw = gzip.compress(b'data: {"id": "c", "choices": [{"index": 0, "delta": {"content": "x"}}]}\n\ndata: [DONE]\n\n')

    async def body() -> Any:
        yield raw[:10]
        yield raw[10:]

    def handle(_request: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
        return httpx2.Response(200, headers=headers, content=body())

    async def main() -> None:
        own = httpx2.AsyncClient(transport=httpx2.MockTransport(handle))
        async with own.stream("POST", "http://fake/v1/chat/completions", json={}) as response:
            assert b"[DONE]" in await response.aread()

    asyncio.run(main())
    assert [call.reply.text for call, _ in seen if call.reply] == ["x"]


def test_a_request_that_fails_is_seen_and_still_fails(seen: Seen) -> None:
    def handle(_request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("nobody there")

    async def main() -> None:
        own = httpx2.AsyncClient(transport=httpx2.MockTransport(handle))
        with pytest.raises(httpx2.ConnectError):
            await own.post("http://fake/v1/messages", json={})

    asyncio.run(main())
    assert [(call.status, call.failure) for call, _ in seen] == [(None, "ConnectError: nobody there")]


def test_calls_of_runs_in_one_loop_stay_apart() -> None:
    found: Seen = []
    observer = Observer(lambda call, origin: found.append((call, origin)))
    observer.install()

    async def run(index: int, sdk: openai.AsyncOpenAI) -> None:
        observer.begin(index)
        for _ in range(2):
            await asyncio.create_task(ask(sdk))

    async def ask(sdk: openai.AsyncOpenAI) -> None:
        await sdk.chat.completions.create(model=MODEL, messages=MESSAGES)

    async def main() -> None:
        sdk = client(FakeModel())
        await asyncio.gather(*(asyncio.create_task(run(index, sdk)) for index in range(5)))

    try:
        asyncio.run(main())
    finally:
        observer.remove()
    assert sorted((call.run, call.number) for call, _ in found) == [(run, n) for run in range(5) for n in (1, 2)]


def test_a_stream_that_nobody_reads_to_its_end_is_told_when_the_observer_goes() -> None:
    found: Seen = []
    observer = Observer(lambda call, origin: found.append((call, origin)))
    observer.install()
    model = FakeModel()

    async def main() -> None:
        async def body() -> Any:
            yield b"data: {}\n\n"
            await asyncio.Event().wait()

        def handle(_request: httpx2.Request) -> httpx2.Response:
            return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body())

        own = httpx2.AsyncClient(transport=httpx2.MockTransport(handle))
        request = own.build_request("POST", "http://fake/v1/chat/completions", json={"model": model.text})
        await own.send(request, stream=True)
        assert found == []
        observer.remove()

    asyncio.run(main())
    assert [call.failure for call, _ in found] == ["the answer was never read to its end"]


def test_removing_puts_everything_back() -> None:
    before = (httpx2.Client.send, httpx2.AsyncClient.send)
    observer = Observer(lambda _call, _origin: None)
    observer.install()
    assert httpx2.AsyncClient.send is not before[1]
    observer.remove()
    assert (httpx2.Client.send, httpx2.AsyncClient.send) == before
