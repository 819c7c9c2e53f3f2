"""The connection to the engine, as the rest of the gateway sees it.

An interface with one implementation (aiohttp_upstream.py): tests put an engine of their own behind it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

Headers = list[tuple[bytes, bytes]]


class UpstreamError(Exception):
    """The engine could not be reached, or broke off in the middle; the text says how."""


class UpstreamAnswer(Protocol):
    """An answer whose head has arrived and whose body is still on its way."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Headers:
        """The headers as they came, names in lower case."""

    def parts(self) -> AsyncIterator[bytes]:
        """The body as it arrives, not decoded. Raises UpstreamError when it breaks off."""


class Upstream(Protocol):
    """Sends requests to the engine."""

    def open(
        self, method: str, target: bytes, headers: Headers, body: bytes
    ) -> AbstractAsyncContextManager[UpstreamAnswer]:
        """Send one request; entering waits for the answer's head, leaving closes the connection.

        Args:
            method: the HTTP method.
            target: path and query as they go over the wire.
            headers: sent as they are; length and host are added.
            body: the whole body.

        Raises:
            UpstreamError: on entering, when there is no answer.
        """
