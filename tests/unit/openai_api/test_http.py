from __future__ import annotations

import socket
import ssl
from collections.abc import Callable

import httpx2
import pytest

from harness.errors import BadSetting
from harness.openai_api.http import Endpoint, Server, error_message


def server(handle: Callable[[httpx2.Request], httpx2.Response]) -> Server:
    endpoint = Endpoint.parse("http://host:8080/v1/", "sk-secret-key")
    return Server(endpoint, timeout=5, transport=httpx2.MockTransport(handle))


def raising(error: Exception, cause: Exception | None = None) -> Callable[[httpx2.Request], httpx2.Response]:
    def handle(_request: httpx2.Request) -> httpx2.Response:
        raise error from cause

    return handle


@pytest.mark.parametrize("text", ["127.0.0.1:8080/v1", "", "ftp://x/v1", "http://"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(BadSetting, match="OPENAI_BASE_URL"):
        Endpoint.parse(text, "")


def test_a_password_in_the_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(BadSetting) as caught:
        Endpoint.parse("http://me:hunter22@host/v1", "")
    assert "hunter22" not in str(caught.value)


def test_an_endpoint_knows_its_root_and_hides_its_key() -> None:
    endpoint = Endpoint.parse("https://host/api/v1/", "sk-secret")
    assert endpoint.base_url == "https://host/api/v1"
    assert endpoint.root == "https://host/api"
    assert endpoint.origin == "https://host"
    assert "secret" not in repr(endpoint)


def test_paths_lie_below_the_base_url_or_the_root_and_carry_the_key() -> None:
    seen: list[httpx2.Request] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, json={})

    with server(handle) as connection:
        connection.get("/models")
        connection.get("/health", at_root=True)
        connection.get("/models", with_key=False)
    assert [str(request.url) for request in seen] == [
        "http://host:8080/v1/models",
        "http://host:8080/health",
        "http://host:8080/v1/models",
    ]
    assert seen[0].headers["authorization"] == "Bearer sk-secret-key"
    assert seen[0].headers["x-api-key"] == "sk-secret-key"
    assert "authorization" not in seen[2].headers


@pytest.mark.parametrize(
    ("error", "cause", "kind", "words"),
    [
        (httpx2.ConnectError("x"), ConnectionRefusedError(111, "refused"), "refused", "nothing listens on host:8080"),
        (httpx2.ConnectError("x"), socket.gaierror(-2, "unknown"), "name", "the name host can't be resolved"),
        (httpx2.ConnectError("x"), ssl.SSLError("bad certificate"), "tls", "TLS with host:8080 failed"),
        (httpx2.ConnectTimeout("x"), None, "unreachable", "no answer to the connection attempt"),
        (httpx2.ReadTimeout("x"), None, "time-out", "no byte from host:8080 within 5 s"),
        (httpx2.RemoteProtocolError("Server disconnected"), None, "cut", "broke the connection off"),
        (httpx2.ProxyError("403"), None, "proxy", "proxy"),
    ],
)
def test_a_failure_is_told_by_its_cause(error: Exception, cause: Exception | None, kind: str, words: str) -> None:
    with server(raising(error, cause)) as connection:
        answer = connection.get("/models")
    assert answer.status is None
    assert answer.failure is not None
    assert answer.failure.kind == kind
    assert words in answer.problem
    assert not answer.ok


def test_a_stream_is_gathered_as_events() -> None:
    stream = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=b"data: 1\n\ndata: [DONE]\n\n")
    with server(lambda _request: stream) as connection:
        answer = connection.post("/chat/completions", {})
    assert [event.data for event in answer.events] == ["1", "[DONE]"]
    assert answer.first_seconds is not None


def test_a_refusal_is_told_with_the_servers_words() -> None:
    with server(lambda _r: httpx2.Response(400, json={"error": {"message": "no\n such  model"}})) as connection:
        assert connection.get("/x").problem == "HTTP 400: no such model"


def test_an_answer_that_is_no_json_is_kept_as_text() -> None:
    with server(lambda _r: httpx2.Response(502, text="<html>Bad Gateway</html>")) as connection:
        answer = connection.get("/x")
    assert answer.body is None
    assert "Bad Gateway" in answer.problem


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "a"}}, "a"),
        ({"error": "b"}, "b"),
        ({"message": "c"}, "c"),
        ({"detail": [{"loc": ["x"]}]}, '[{"loc": ["x"]}]'),
        ({"x": 1}, ""),
        ([], ""),
    ],
)
def test_an_error_is_found_in_any_of_its_shapes(body: object, message: str) -> None:
    assert error_message(body) == message
