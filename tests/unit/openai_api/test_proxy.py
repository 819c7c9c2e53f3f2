from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import openai
import pytest

from harness.openai_api.calls import Call
from harness.openai_api.http import Endpoint
from harness.openai_api.proxy import RecordingProxy
from tests.support.fake_model import KEY, MODEL, FakeModel, response

MESSAGES: list[Any] = [{"role": "user", "content": "hi"}]


def through(
    transport: Any, use: Callable[[RecordingProxy, str], Awaitable[None]], *, key: str = KEY, base: str = "/v1"
) -> list[Call]:
    """Use a proxy in front of a server, and give the calls that it saw."""
    calls: list[Call] = []

    async def main() -> None:
        endpoint = Endpoint.parse(f"http://fake{base}", key)
        async with RecordingProxy(endpoint, take=calls.append, transport=transport) as proxy:
            await use(proxy, proxy.open_run(7))

    asyncio.run(asyncio.wait_for(main(), 30))
    return calls


async def chat(proxy: RecordingProxy, key: str, **more: Any) -> Any:
    async with openai.AsyncOpenAI(base_url=proxy.base_url, api_key=key, max_retries=0) as client:
        return await client.chat.completions.create(model=MODEL, messages=MESSAGES, **more)


def test_a_call_passes_through_and_is_recorded() -> None:
    model = FakeModel(text="Paris")

    async def use(proxy: RecordingProxy, key: str) -> None:
        completion = await chat(proxy, key, max_tokens=16, temperature=1.0)
        assert completion.choices[0].message.content == "Paris"

    (call,) = through(model.transport(), use)
    assert (call.run, call.number, call.path, call.protocol) == (7, 1, "/v1/chat/completions", "chat")
    assert (call.status, call.ok, call.streamed, call.messages) == (200, True, False, 1)
    assert call.asked == {"model": MODEL, "max_tokens": 16, "temperature": 1.0}
    assert call.reply is not None
    assert (call.reply.text, call.reply.prompt_tokens, call.reply.completion_tokens) == ("Paris", 10, 4)
    assert call.request["messages"] == MESSAGES
    assert call.response["choices"]


def test_the_server_gets_its_own_key_and_the_agent_never_has_it() -> None:
    model = FakeModel()

    async def use(proxy: RecordingProxy, key: str) -> None:
        assert KEY not in key
        await chat(proxy, key)

    through(model.transport(), use)
    assert model.headers[0]["authorization"] == f"Bearer {KEY}"
    assert model.headers[0]["accept-encoding"] == "identity"


def test_a_server_without_key_gets_none() -> None:
    model = FakeModel(key="")
    through(model.transport(), lambda proxy, key: chat(proxy, key), key="")
    assert "authorization" not in model.headers[0]


def test_whoever_lacks_the_runs_key_is_refused() -> None:
    model = FakeModel()

    async def use(proxy: RecordingProxy, _key: str) -> None:
        with pytest.raises(openai.AuthenticationError):
            await chat(proxy, "sk-somebody-elses-key")
        assert proxy.refused == 1

    assert through(model.transport(), use) == []
    assert model.requests == []


def test_a_stream_passes_through_and_is_recorded() -> None:
    async def use(proxy: RecordingProxy, key: str) -> None:
        stream = await chat(proxy, key, stream=True, stream_options={"include_usage": True})
        parts = [part async for part in stream]
        assert "".join(part.choices[0].delta.content or "" for part in parts if part.choices) == "oneword"

    (call,) = through(FakeModel(text="oneword").transport(), use)
    assert call.streamed
    assert call.first_token_seconds is not None
    assert call.reply is not None
    assert (call.reply.text, call.reply.completion_tokens, call.reply.deviations) == ("oneword", 4, [])
    assert call.response[-1] == "[DONE]"


def test_an_error_of_the_server_passes_through_with_its_status() -> None:
    async def use(proxy: RecordingProxy, key: str) -> None:
        with pytest.raises(openai.InternalServerError, match="it broke"):
            await chat(proxy, key)

    (call,) = through(FakeModel(broken={"completions"}).transport(), use)
    assert (call.status, call.ok, call.reply) == (500, False, None)


def test_a_server_that_is_not_there_is_a_502_that_says_so() -> None:
    async def use(proxy: RecordingProxy, key: str) -> None:
        with pytest.raises(openai.InternalServerError, match=r"can't be reached"):
            await chat(proxy, key)

    def handle(_request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("no")

    (call,) = through(httpx2.MockTransport(handle), use)
    assert call.status is None
    assert "fake" in call.failure


class Body(httpx2.AsyncByteStream):
    """A body that sends something and then does what a test wants."""

    def __init__(self, after: Callable[[], Awaitable[None]]) -> None:
        self.after = after
        self.closed = False

    async def __aiter__(self) -> Any:
        yield b'data: {"id": "c1", "choices": []}\n\n'
        await self.after()

    async def aclose(self) -> None:
        self.closed = True


def streaming(body: Body) -> httpx2.MockTransport:
    async def handle(_request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=body)

    return httpx2.MockTransport(handle)


def test_a_stream_that_the_server_cuts_is_cut_for_the_agent_too() -> None:
    async def cut() -> None:
        raise httpx2.ReadError("reset")

    async def use(proxy: RecordingProxy, key: str) -> None:
        with pytest.raises((openai.APIError, httpx2.RemoteProtocolError)):
            _ = [part async for part in await chat(proxy, key, stream=True)]

    (call,) = through(streaming(Body(cut)), use)
    assert "broke the connection off" in call.failure
    assert not call.abandoned


def test_an_agent_that_hangs_up_ends_the_generation_at_the_server() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    body = Body(forever)

    async def use(proxy: RecordingProxy, key: str) -> None:
        async with httpx2.AsyncClient() as client:
            asked = {"model": MODEL, "messages": MESSAGES, "stream": True}
            headers = {"authorization": f"Bearer {key}"}
            async with client.stream(
                "POST", f"{proxy.base_url}/chat/completions", json=asked, headers=headers
            ) as answer:
                await anext(answer.aiter_bytes())
        while not body.closed:
            await asyncio.sleep(0.01)

    (call,) = through(streaming(body), use)
    assert call.abandoned
    assert "broke the call off" in call.failure


def test_a_call_under_way_when_the_proxy_closes_is_recorded_as_abandoned() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    tasks = []

    async def use(proxy: RecordingProxy, key: str) -> None:
        stream = await chat_stream(proxy, key)
        tasks.append(stream)

    async def chat_stream(proxy: RecordingProxy, key: str) -> Any:
        client = httpx2.AsyncClient()
        request = client.build_request(
            "POST",
            f"{proxy.base_url}/chat/completions",
            json={"messages": MESSAGES},
            headers={"authorization": f"Bearer {key}"},
        )
        return await client.send(request, stream=True)

    (call,) = through(streaming(Body(forever)), use)
    assert call.abandoned
    assert "the run was cut" in call.failure


def test_paths_are_recorded_as_they_were_asked_for() -> None:
    async def use(proxy: RecordingProxy, key: str) -> None:
        client = openai.AsyncOpenAI(base_url=f"{proxy.base_url}/v1", api_key=key, max_retries=0)
        with pytest.raises(openai.NotFoundError):
            await client.chat.completions.create(model=MODEL, messages=MESSAGES)
        await client.close()

    (call,) = through(FakeModel().transport(), use)
    assert (call.path, call.status) == ("/v1/v1/chat/completions", 404)


def test_a_base_url_with_a_longer_path_is_kept() -> None:
    seen: list[str] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        seen.append(str(request.url))
        return response(200, "application/json", [b'{"id": "1", "choices": []}'])

    through(httpx2.MockTransport(handle), lambda proxy, key: chat(proxy, key), base="/api/openai/v1")
    assert seen == ["http://fake/api/openai/v1/chat/completions"]


def test_several_calls_on_one_connection_are_numbered() -> None:
    async def use(proxy: RecordingProxy, key: str) -> None:
        async with httpx2.AsyncClient(headers={"x-api-key": key}) as client:
            for _ in range(3):
                answer = await client.post(f"{proxy.root}/v1/messages", json={"messages": MESSAGES})
                assert answer.status_code == 200

    calls = through(FakeModel().transport(), use)
    assert [call.number for call in calls] == [1, 2, 3]
    assert {call.protocol for call in calls} == {"messages"}


def test_many_at_once_each_get_their_own_answer() -> None:
    async def use(proxy: RecordingProxy, key: str) -> None:
        async with httpx2.AsyncClient(headers={"x-api-key": key}) as client:
            await asyncio.gather(*(client.get(f"{proxy.base_url}/echo/{number}") for number in range(50)))

    def handle(request: httpx2.Request) -> httpx2.Response:
        return response(200, "application/json", [json.dumps({"path": request.url.path}).encode()])

    calls = through(httpx2.MockTransport(handle), use)
    assert all(call.response["path"] == call.path for call in calls)
    assert len(calls) == 50


def test_garbage_on_the_port_harms_nobody() -> None:
    async def use(proxy: RecordingProxy, key: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"\x16\x03\x01\x02\x00 hello\r\n\r\n")
        await writer.drain()
        await reader.read()
        writer.close()
        await chat(proxy, key)

    assert len(through(FakeModel().transport(), use)) == 1


def test_a_call_survives_being_written_and_read() -> None:
    calls = through(FakeModel().transport(), lambda proxy, key: chat(proxy, key))
    assert Call.from_dict(json.loads(json.dumps(calls[0].as_dict()))) == calls[0]
