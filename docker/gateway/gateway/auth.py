"""Nothing is answered without the key, whatever the path and the method."""

from __future__ import annotations

import hmac

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.api_errors import error_response

_MESSAGE = (
    "Missing or wrong API key. Send 'Authorization: Bearer KEY' or 'x-api-key: KEY' with the key of this stack "
    "(the file .drydock/PROJECT/secrets/api_key)."
)


class KeyRequired:
    """ASGI middleware: 401 unless the request carries the key as a bearer token or as ``x-api-key``."""

    def __init__(self, app: ASGIApp, api_key: str) -> None:
        self._app = app
        self._key = api_key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it unread."""
        if scope["type"] == "lifespan" or (scope["type"] == "http" and self._is_authorised(scope)):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            headers = {"WWW-Authenticate": "Bearer"}
            response = error_response(scope["path"], 401, _MESSAGE, code="invalid_api_key", headers=headers)
            await response(scope, receive, send)
        else:  # a WebSocket: no engine behind this gateway is spoken to that way
            await send({"type": "websocket.close", "code": 1008, "reason": "WebSockets are not served here."})

    def _is_authorised(self, scope: Scope) -> bool:
        # Every offered key is compared in full, so that the time taken says nothing about where they differ.
        matches = [hmac.compare_digest(offered, self._key) for offered in _offered_keys(scope["headers"])]
        return any(matches)


def _offered_keys(headers: list[tuple[bytes, bytes]]) -> list[bytes]:
    keys = []
    for name, value in headers:
        if name == b"x-api-key":
            keys.append(value.strip())
        elif name == b"authorization":
            scheme, _, credentials = value.partition(b" ")
            if scheme.lower() == b"bearer":
                keys.append(credentials.strip())
    return keys
