"""The connection to the engine over HTTP.

aiohttp and not httpx2: both were measured with a token an event, and httpx2 took 0.2 ms of CPU for each where aiohttp
takes 0.09. On a machine of two busy cores that is the difference between noticing the gateway and not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import yarl

from gateway.upstream import Headers, UpstreamAnswer, UpstreamError

# aiohttp adds these where the caller sent none; what reaches the engine shall be what the caller sent.
_NOT_ADDED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_HEADER_LIMIT = 65536


class AiohttpUpstream:
    """An Upstream for one base URL; use as an async context manager."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url

    async def __aenter__(self) -> AiohttpUpstream:
        """Open the session.

        No time limit but for connecting: a generation may take as long as it takes. No connection is kept: the engines
        close idle ones after 5 s, and a request sent at that very moment would fail; a new connection on the loopback
        costs less than a millisecond. The environment's proxies are not for the loopback (trust_env is off).
        """
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=60),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            max_line_size=_HEADER_LIMIT,
            max_field_size=_HEADER_LIMIT,
            skip_auto_headers=_NOT_ADDED,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close whatever is open."""
        await self._session.close()

    @asynccontextmanager
    async def open(self, method: str, target: bytes, headers: Headers, body: bytes) -> AsyncIterator[UpstreamAnswer]:
        """Send one request; see Upstream.open."""
        url = yarl.URL(self._base_url + target.decode("latin-1"), encoded=True)
        texts = [(name.decode("latin-1"), value.decode("utf-8", "replace")) for name, value in headers]
        request = self._session.request(method, url, headers=texts, data=body or None, allow_redirects=False)
        try:
            response = await request
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise UpstreamError(_reason(error)) from error
        async with response:
            yield _Answer(response)


class _Answer:
    """An answer of aiohttp's."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status: int = response.status
        self.headers: Headers = [(name.lower(), value) for name, value in response.raw_headers]

    async def parts(self) -> AsyncIterator[bytes]:
        try:
            async for data in self._response.content.iter_any():
                yield data
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise UpstreamError(_reason(error)) from error


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
