"""What stands in front of Ray's dashboard: passes HTTP and WebSockets on, with the token, as far as gate_rules.py lets.

dashboard_gate.py gate PORT URL [HOST]   on the head, for everybody: asks for the token, unless RAY_AUTH_MODE=disabled
dashboard_gate.py relay PORT URL         in `dev`, on its loopback only: for editors, browsers, programs without a token
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import aiohttp
import gate_rules
from aiohttp import web
from yarl import URL

# Between two neighbours only (RFC 9110, 7.6.1), or written anew on the other side.
NOT_PASSED_ON = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "te", "trailer", "transfer-encoding", "upgrade"}
    | {"host", "content-length", "authorization", "accept-encoding", "content-encoding"}
)
CLIENT: web.AppKey[aiohttp.ClientSession] = web.AppKey("client", aiohttp.ClientSession)
Judge = Callable[[Mapping[str, str]], "tuple[int, str] | None"]


class Gate:
    """Checks each request and passes it on to the dashboard behind."""

    def __init__(self, judge: Judge, token: str, behind: str) -> None:
        self._judge = judge
        self._token = token
        self._behind = behind

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one request."""
        if refused := self._judge(request.headers):
            status, reason = refused
            headers = (
                {"WWW-Authenticate": 'Basic realm="Ray dashboard: the password is the token"'} if status == 401 else {}
            )
            return web.Response(status=status, text=reason + "\n", headers=headers)
        # Put behind an address, anything else could name another host.
        if not request.raw_path.startswith("/"):
            return web.Response(status=400, text="A path begins with a slash.\n")
        url = URL(self._behind + request.raw_path, encoded=True)
        try:
            if request.headers.get("Upgrade", "").lower() == "websocket":
                return await self._websocket(request, url)
            return await self._http(request, url)
        except aiohttp.ClientConnectionError as error:
            return web.Response(status=502, text=f"The dashboard does not answer: {error}\n")

    async def _http(self, request: web.Request, url: URL) -> web.StreamResponse:
        answer = await request.app[CLIENT].request(
            request.method,
            url,
            headers=self._headers(request),
            data=request.content if request.can_read_body else None,
            allow_redirects=False,
        )
        async with answer:
            headers = {name: value for name, value in answer.headers.items() if name.lower() not in NOT_PASSED_ON}
            response = web.StreamResponse(status=answer.status, headers=headers)
            await response.prepare(request)
            try:
                async for data in answer.content.iter_any():
                    await response.write(data)
            except aiohttp.ClientError:
                # The head of the answer is gone already; only a cut says that the rest is missing.
                if request.transport is not None:
                    request.transport.abort()
                return response
            await response.write_eof()
            return response

    async def _websocket(self, request: web.Request, url: URL) -> web.StreamResponse:
        wanted = [part.strip() for part in request.headers.get("Sec-WebSocket-Protocol", "").split(",") if part.strip()]
        try:
            far = await request.app[CLIENT].ws_connect(
                url, headers={"Authorization": f"Bearer {self._token}"}, protocols=wanted, max_msg_size=0
            )
        except aiohttp.WSServerHandshakeError as error:
            return web.Response(status=error.status, text=f"The dashboard refuses: {error.message}\n")
        async with far:
            near = web.WebSocketResponse(protocols=[far.protocol] if far.protocol else (), max_msg_size=0)
            await near.prepare(request)
            ends = [asyncio.ensure_future(_copy(near, far)), asyncio.ensure_future(_copy(far, near))]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()
            await near.close(code=far.close_code or 1000)
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


def application(gate: Gate) -> web.Application:
    """The gate as an application."""

    async def client(app: web.Application):
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        app[CLIENT] = aiohttp.ClientSession(timeout=timeout, auto_decompress=True)
        yield
        await app[CLIENT].close()

    app = web.Application(client_max_size=0)
    app.cleanup_ctx.append(client)
    app.router.add_route("*", "/{path:.*}", gate.handle)
    return app


def judge_for(role: str, token: str, environ: Mapping[str, str]) -> Judge:
    """Who may pass: in `dev` whoever its loopback reaches, elsewhere those who have the token."""
    if role == "relay":
        return gate_rules.foreign
    if environ.get("RAY_AUTH_MODE") == "disabled":
        return lambda headers: gate_rules.foreign(headers, gate_rules.OWN_HOSTS)
    return lambda headers: gate_rules.refusal(headers, token)


def main() -> None:
    """Serve until a signal."""
    role, port, behind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    token = Path(os.environ.get("RAY_AUTH_TOKEN_PATH", "/run/secrets/ray_token")).read_text().strip()
    gate = Gate(judge_for(role, token, os.environ), token, behind)
    host = "127.0.0.1" if role == "relay" else (sys.argv[4:] or ["0.0.0.0"])[0]
    web.run_app(application(gate), host=host, port=port, print=None, access_log=None)


if __name__ == "__main__":
    main()
