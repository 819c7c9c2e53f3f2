"""One request to a server, and what came back or why nothing did.

httpx2 is what the OpenAI and Anthropic SDKs use; where only its ancestor httpx is installed, that serves as well.
"""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from harness.errors import BadSetting
from harness.openai_api import sse

if TYPE_CHECKING:
    import httpx2 as httpx
else:
    try:
        import httpx2 as httpx
    except ModuleNotFoundError:  # Python 3.10, for which there is no httpx2
        import httpx

FailureKind = Literal["name", "refused", "unreachable", "time-out", "tls", "cut", "protocol", "proxy"]

# More than any answer to a probe; a server that floods must not fill our memory.
MAX_BODY = 8 * 1024 * 1024


@dataclass(frozen=True)
class Endpoint:
    """Where a server is and how to be let in.

    Args:
        base_url: as OpenAI clients take it, so mostly with ``/v1`` at its end.
        api_key: sent as Bearer token and as ``x-api-key``; never shown.
    """

    base_url: str
    api_key: str = field(repr=False)

    @property
    def root(self) -> str:
        """The base URL without ``/v1``: where Anthropic clients start, and where ``/health`` is."""
        return self.base_url.removesuffix("/v1")

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc}"

    @classmethod
    def parse(cls, base_url: str, api_key: str) -> Endpoint:
        """Check a base URL and take trailing slashes off.

        Raises:
            BadSetting: it is no http(s) URL, or it carries a user name and password.
        """
        parts = urlsplit(base_url.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadSetting(
                f"OPENAI_BASE_URL={base_url!r} is no http:// or https:// address",
                mend="OPENAI_BASE_URL=http://127.0.0.1:8080/v1   # host, port and /v1",
            )
        if parts.username or parts.password:
            raise BadSetting(
                "OPENAI_BASE_URL carries a user name or a password, which would end in logs and reports",
                mend="put the key into OPENAI_API_KEY and take it out of the URL",
            )
        return cls(base_url.strip().rstrip("/"), api_key)


@dataclass(frozen=True)
class Failure:
    """Why there is no answer.

    Args:
        kind: what failed, in one word.
        text: the same in a sentence, without the library's class names.
    """

    kind: FailureKind
    text: str


@dataclass(frozen=True)
class Answer:
    """What a server said to one request.

    Args:
        status: the HTTP status, or None where there was no answer.
        body: the body as JSON, or None where it isn't JSON.
        text: the body as text, cut.
        events: the events of a stream.
        seconds: time to the last byte.
        first_seconds: time to the first event of a stream that carries data.
        failure: why there is no answer, or why it broke off.
    """

    method: str
    path: str
    status: int | None = None
    content_type: str = ""
    body: Any = None
    text: str = ""
    events: tuple[sse.Event, ...] = ()
    seconds: float = 0.0
    first_seconds: float | None = None
    failure: Failure | None = None

    @property
    def ok(self) -> bool:
        """Whether the whole answer came with a status of success."""
        return self.failure is None and self.status is not None and 200 <= self.status < 300

    @property
    def problem(self) -> str:
        """What is wrong with the answer, in a few words; empty when nothing is."""
        if self.failure is not None:
            return self.failure.text
        if self.status is None or 200 <= self.status < 300:
            return ""
        said = error_message(self.body) or self.text.strip()[:200]
        return f"HTTP {self.status}" + (f": {said}" if said else "")


def error_message(body: Any) -> str:
    """The sentence in an error body, in any of the shapes that servers use."""
    if not isinstance(body, dict):
        return ""
    for key in ("error", "message", "detail"):
        value = body.get(key)
        if isinstance(value, dict):
            value = value.get("message")
        if isinstance(value, str):
            return " ".join(value.split())[:300]
        if value is not None and key == "detail":
            return json.dumps(value)[:300]
    return ""


class Server:
    """A connection to one server; a context manager.

    Args:
        endpoint: where it is.
        timeout: seconds that one request may take between two bytes.
        transport: stands in for the network in tests.
    """

    def __init__(self, endpoint: Endpoint, *, timeout: float = 60.0, transport: Any = None) -> None:
        self.endpoint = endpoint
        self.timeout = timeout
        self._client = httpx.Client(
            timeout=httpx.Timeout(timeout, connect=min(timeout, 10.0)),
            limits=limits_for(endpoint, connections=10),
            transport=transport,
        )

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def get(self, path: str, *, at_root: bool = False, with_key: bool = True) -> Answer:
        """GET a path below the base URL, or below the base URL without ``/v1``."""
        return self._send("GET", path, None, at_root=at_root, with_key=with_key)

    def post(
        self, path: str, body: Mapping[str, Any], *, at_root: bool = False, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """POST JSON; where the answer is an event stream its events are gathered."""
        return self._send("POST", path, body, at_root=at_root, headers=headers)

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        *,
        at_root: bool = False,
        with_key: bool = True,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        url = (self.endpoint.root if at_root else self.endpoint.base_url) + path
        sent = {"accept": "application/json, text/event-stream", **(headers or {})}
        if with_key and self.endpoint.api_key:
            sent |= {"authorization": f"Bearer {self.endpoint.api_key}", "x-api-key": self.endpoint.api_key}
        started = time.monotonic()
        gathered = _Gathered()
        failure: Failure | None = None
        try:
            with self._client.stream(method, url, json=body, headers=sent) as response:
                gathered.begin(response.status_code, response.headers.get("content-type", ""))
                gathered.take(response.iter_bytes(), started)
        except httpx.HTTPError as error:
            failure = explain(error, url, self.timeout)
        except httpx.InvalidURL as error:
            failure = Failure("protocol", f"{url} is no address: {error}")
        return gathered.answer(method, path, time.monotonic() - started, failure)


def limits_for(endpoint: Endpoint, *, connections: int | None) -> httpx.Limits:
    """Limits of a client for a server; over plain HTTP a connection serves one request only.

    Some servers (llama.cpp after a stream) close a connection that they promised to keep, and a request that is on
    its way then gets no answer. An SDK sends it again; for a probe or a proxy that would blur what the server does.
    """
    kept = 0 if endpoint.base_url.startswith("http://") else 100
    return httpx.Limits(max_connections=connections, max_keepalive_connections=kept)


class _Gathered:
    """The parts of an answer so far, so that one that breaks off still shows what came."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.content_type = ""
        self.raw = bytearray()
        self.events: list[sse.Event] = []
        self.first: float | None = None
        self._decoder = sse.Decoder()

    def begin(self, status: int, content_type: str) -> None:
        self.status, self.content_type = status, content_type

    def take(self, chunks: Iterator[bytes], started: float) -> None:
        streaming = "event-stream" in self.content_type
        for chunk in chunks:
            if streaming:
                self._add(self._decoder.feed(chunk), started)
            if len(self.raw) < MAX_BODY:
                self.raw += chunk
        if streaming:
            self._add(self._decoder.finish(), started)

    def _add(self, events: list[sse.Event], started: float) -> None:
        if events and self.first is None:
            self.first = time.monotonic() - started
        self.events += events

    def answer(self, method: str, path: str, seconds: float, failure: Failure | None) -> Answer:
        text = bytes(self.raw).decode("utf-8", "replace")
        try:
            body = json.loads(text)
        except ValueError:
            body = None
        return Answer(
            method,
            path,
            self.status,
            self.content_type,
            body,
            text[:4000],
            tuple(self.events),
            seconds,
            self.first,
            failure,
        )


def explain(error: BaseException, url: str, timeout: float) -> Failure:
    """Put a failed request into words that name the cause instead of the library's class."""
    where = urlsplit(url).netloc
    cause = _first_cause(error)
    if isinstance(cause, socket.gaierror):
        return Failure("name", f"the name {urlsplit(url).hostname} can't be resolved")
    if isinstance(cause, ConnectionRefusedError):
        return Failure("refused", f"nothing listens on {where}")
    if isinstance(cause, ssl.SSLError) or "CERTIFICATE_VERIFY" in str(error):
        return Failure("tls", f"TLS with {where} failed: {cause}")
    if isinstance(error, httpx.ConnectTimeout):
        return Failure("unreachable", f"{where} can't be reached: no answer to the connection attempt")
    if isinstance(error, httpx.TimeoutException):
        return Failure("time-out", f"no byte from {where} within {timeout:g} s")
    if isinstance(error, httpx.ProxyError):
        return Failure("proxy", f"the HTTP proxy on the way to {where} refused: {error}")
    if isinstance(error, httpx.ConnectError):
        return Failure("unreachable", f"{where} can't be reached: {cause}")
    if isinstance(error, (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)):
        return Failure("cut", f"{where} broke the connection off: {str(error) or type(cause).__name__}")
    return Failure("protocol", f"{where}: {error}")


def _first_cause(error: BaseException) -> BaseException:
    """The operating system's error at the bottom of a chain of wrapped ones."""
    seen: set[int] = set()
    while id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, OSError):
            return error
        inner = error.__cause__ or error.__context__
        if inner is None:
            return error
        error = inner
    return error
