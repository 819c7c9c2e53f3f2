"""The gate in front of Ray's dashboard: HTTP and WebSockets, passed on to those who have the token (gate_rules.py).

dashboard_gate.py PORT DASHBOARD_PORT
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import aiohttp
from aiohttp import web
from gate_rules import refusal

# Between two neighbours only (RFC 9110, 7.6.1), or written anew on the other side.
NOT_PASSED_ON = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "te", "trailer", "transfer-encoding", "upgrade"}
    | {"host", "content-length", "authorization", "accept-encoding", "content-encoding"}
)
CLIENT: web.AppKey[aiohttp.ClientSession] = web.AppKey("client", aiohttp.ClientSession)


class Gate:
    """Checks each request and passes it on to the dashboard behind."""

    def __init__(self, token: str, behind: str) -> None:
        self._token = token
        self._behind = behind

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one request."""
        if refused := refusal(request.headers, self._token):
            status, reason = refused
            headers = (
                {"WWW-Authenticate": 'Basic realm="Ray dashboard: the password is the token"'} if status == 401 else {}
            )
            return web.Response(status=status, text=reason + "\n", headers=headers)
        if request.headers.get("Upgrade", "").lower() == "websocket":
            return await self._websocket(request)
        return await self._http(request)

    async def _http(self, request: web.Request) -> web.StreamResponse:
        try:
            answer = await request.app[CLIENT].request(
                request.method,
                self._behind + request.raw_path,
                headers=self._headers(request),
                data=request.content if request.can_read_body else None,
                allow_redirects=False,
            )
        except aiohttp.ClientError as error:
            return web.Response(status=502, text=f"The dashboard does not answer: {error}\n")
        async with answer:
            headers = {name: value for name, value in answer.headers.items() if name.lower() not in NOT_PASSED_ON}
            response = web.StreamResponse(status=answer.status, headers=headers)
            await response.prepare(request)
            async for data in answer.content.iter_any():
                await response.write(data)
            await response.write_eof()
            return response

    async def _websocket(self, request: web.Request) -> web.StreamResponse:
        near = web.WebSocketResponse(max_msg_size=0)
        await near.prepare(request)
        async with request.app[CLIENT].ws_connect(
            self._behind + request.raw_path, headers={"Authorization": f"Bearer {self._token}"}, max_msg_size=0
        ) as far:
            ends = [asyncio.ensure_future(_copy(near, far)), asyncio.ensure_future(_copy(far, near))]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()
        await near.close()
        return near

    def _headers(self, request: web.Request) -> dict[str, str]:
        # Origin and Sec-Fetch-* have done their work; Ray would judge them by its own port.
        dropped = NOT_PASSED_ON | {"origin", "referer"}
        kept = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in dropped and not name.lower().startswith("sec-fetch-")
        }
        return {**kept, "Authorization": f"Bearer {self._token}"}


Socket = web.WebSocketResponse | aiohttp.ClientWebSocketResponse


async def _copy(source: Socket, target: Socket) -> None:
    async for message in source:
        if message.type is aiohttp.WSMsgType.TEXT:
            await target.send_str(message.data)
        elif message.type is aiohttp.WSMsgType.BINARY:
            await target.send_bytes(message.data)


def main() -> None:
    """Serve until a signal."""
    port, dashboard_port = int(sys.argv[1]), int(sys.argv[2])
    token = Path(os.environ.get("RAY_AUTH_TOKEN_PATH", "/run/secrets/ray_token")).read_text().strip()
    gate = Gate(token, f"http://127.0.0.1:{dashboard_port}")

    async def client(app: web.Application):
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        app[CLIENT] = aiohttp.ClientSession(timeout=timeout, auto_decompress=True)
        yield
        await app[CLIENT].close()

    app = web.Application(client_max_size=0)
    app.cleanup_ctx.append(client)
    app.router.add_route("*", "/{path:.*}", gate.handle)
    web.run_app(app, host="0.0.0.0", port=port, print=None, access_log=None)


if __name__ == "__main__":
    main()
