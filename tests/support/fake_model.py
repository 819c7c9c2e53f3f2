"""A language model that isn't one: answers OpenAI's and Anthropic's protocols from a script, for tests.

``FakeModel.answer`` is a plain function of the request. ``transport`` puts it behind an httpx client without any
network, ``serving`` behind a real port of 127.0.0.1.
"""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2

KEY = "sk-fake-model-key-0123456789"
MODEL = "fake-135m"


@dataclass
class Reply:
    """What goes back: a status, and either a body or the events of a stream."""

    status: int = 200
    body: Any = None
    events: list[str] | None = None
    break_off: bool = False

    @property
    def content_type(self) -> str:
        return "application/json" if self.events is None else "text/event-stream"

    @property
    def chunks(self) -> list[bytes]:
        if self.events is None:
            return [json.dumps(self.body).encode()]
        return [event.encode() for event in self.events]


@dataclass
class FakeModel:
    """Answers every question with the same text.

    Args:
        text: what it says.
        without: routes and features that it refuses: ``messages``, ``responses``, ``logprobs``, ``tools`` …
        ignoring: features that it accepts and doesn't do.
        broken: routes that answer 500.
        dies_at: the route at whose request it goes away for good; behind ``transport`` only.
        key: what it wants to be let in with; empty lets everybody in.
        tokenizes: what it calls the text whose ids are wanted.
        requests: what it was asked: path and body.
    """

    text: str = "Paris is the capital of France."
    without: set[str] = field(default_factory=set)
    ignoring: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    dies_at: str = ""
    dead: bool = False
    key: str = KEY
    tokenizes: str = "prompt"
    break_streams: bool = False
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    held: tuple[str, threading.Event] | None = None
    arrived: threading.Event = field(default_factory=threading.Event)

    def hold(self, path: str) -> None:
        """Answer nothing on a path until the server is closed; ``arrived`` says that somebody waits there."""
        self.held = (path, threading.Event())

    def answer(self, method: str, path: str, headers: dict[str, str], raw: bytes) -> Reply:
        """Answer one request."""
        body = json.loads(raw) if raw else {}
        self.requests.append((path, body))
        self.headers.append(headers)
        if self.held is not None and self.held[0] == path:
            self.arrived.set()
            self.held[1].wait()
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if self.key and self.key not in (bearer, headers.get("x-api-key")):
            return error(401, "wrong key")
        routes: dict[str, Callable[[dict[str, Any]], Reply]] = {
            "/v1/models": self._models,
            "/v1/chat/completions": self._chat,
            "/v1/completions": self._completions,
            "/v1/messages": self._messages,
            "/v1/responses": self._responses,
            "/generate": self._generate,
            "/tokenize": self._tokenize,
            "/health": lambda _body: Reply(body={"status": "ok"}),
            "/metrics": lambda _body: Reply(body={}),
        }
        name = path.rsplit("/", 1)[-1]
        if path not in routes or name in self.without:
            return error(404, "no such route")
        if name in self.broken:
            return error(500, "it broke")
        return routes[path](body)

    def _models(self, _body: dict[str, Any]) -> Reply:
        return Reply(body={"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    def _refusal(self, body: dict[str, Any]) -> Reply | None:
        if "unknown-model" not in self.ignoring and body.get("model", MODEL) != MODEL:
            return error(404, f"there is no model {body.get('model')}; there is {MODEL}")
        for argument, feature in (
            ("logprobs", "logprobs"),
            ("tools", "tools"),
            ("response_format", "json-schema"),
            ("prompt_logprobs", "prompt-logprobs"),
            ("return_token_ids", "return-token-ids"),
            ("return_tokens_as_token_ids", "token-ids"),
        ):
            if argument in body and feature in self.without:
                return error(400, f"{argument} is not supported")
        return None

    def _chat(self, body: dict[str, Any]) -> Reply:
        if (refused := self._refusal(body)) is not None:
            return refused
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        finish = "stop"
        if body.get("tool_choice") == "required" and "tools" not in self.ignoring:
            call = {"name": "add", "arguments": '{"a": 2, "b": 3}'}
            message = {"role": "assistant", "content": None, "tool_calls": [_tool(call)]}
            finish = "tool_calls"
        if "response_format" in body and "json-schema" not in self.ignoring:
            message["content"] = '{"answer": 5}'
        if body.get("stream") and "streaming" not in self.ignoring:
            return self._chat_stream(body)
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish}
        if body.get("logprobs") and "logprobs" not in self.ignoring:
            content = [{"token": f"t{n}", "logprob": -0.5, "top_logprobs": [{"token": "x"}]} for n in range(4)]
            choice["logprobs"] = {"content": content}
        answer = {"id": f"chatcmpl-{len(self.requests)}", "model": MODEL, "object": "chat.completion"}
        if body.get("return_token_ids") and "return-token-ids" not in self.ignoring:
            choice["token_ids"] = [1, 2, 3, 4]
            answer |= {"prompt_token_ids": [5, 6]}  # type: ignore[dict-item]
        return Reply(body={**answer, "choices": [choice], "usage": usage()})

    def _chat_stream(self, body: dict[str, Any]) -> Reply:
        head = {"id": f"chatcmpl-{len(self.requests)}", "model": MODEL, "object": "chat.completion.chunk"}
        deltas = [{"role": "assistant", "content": ""}, *({"content": word} for word in self.text.split())]
        chunks: list[dict[str, Any]] = [
            {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
        ]
        chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        if body.get("stream_options", {}).get("include_usage"):
            chunks.append({**head, "choices": [], "usage": usage()})
        events = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
        if self.break_streams:
            return Reply(events=events[:3], break_off=True)
        return Reply(events=[*events, "data: [DONE]\n\n"])

    def _completions(self, body: dict[str, Any]) -> Reply:
        if (refused := self._refusal(body)) is not None:
            return refused
        choice: dict[str, Any] = {"index": 0, "text": " Paris", "finish_reason": "length"}
        if body.get("return_tokens_as_token_ids") and "token-ids" not in self.ignoring:
            choice["logprobs"] = {"tokens": ["token_id:7", "token_id:8"], "token_logprobs": [-0.1, -0.2]}
        if body.get("prompt_logprobs") is not None and "prompt-logprobs" not in self.ignoring:
            choice["prompt_logprobs"] = [None, {}, {}, {}]
        return Reply(body={"id": "cmpl-1", "model": MODEL, "choices": [choice], "usage": usage()})

    def _messages(self, body: dict[str, Any]) -> Reply:
        counted = {"input_tokens": 10, "output_tokens": 4}
        if not body.get("stream"):
            return Reply(
                body={
                    "id": "msg_1",
                    "type": "message",
                    "role": "assistant",
                    "model": MODEL,
                    "content": [{"type": "text", "text": self.text}],
                    "stop_reason": "end_turn",
                    "stop_sequence": None,
                    "usage": counted,
                }
            )
        start = {"id": "msg_1", "model": MODEL, "content": [], "usage": {"input_tokens": 10, "output_tokens": 0}}
        steps: list[dict[str, Any]] = [
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": self.text}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}},
            {"type": "message_stop"},
        ]
        return Reply(events=[f"event: {step['type']}\ndata: {json.dumps(step)}\n\n" for step in steps])

    def _responses(self, _body: dict[str, Any]) -> Reply:
        part = {"type": "output_text", "text": self.text}
        counted = {"input_tokens": 10, "output_tokens": 4}
        output = [{"type": "message", "content": [part]}]
        return Reply(body={"id": "resp_1", "model": MODEL, "status": "completed", "output": output, "usage": counted})

    def _tokenize(self, body: dict[str, Any]) -> Reply:
        return Reply(body={"tokens": [1]}) if self.tokenizes in body else error(400, "no text")

    def _generate(self, _body: dict[str, Any]) -> Reply:
        return Reply(body={"text": " x", "meta_info": {"output_token_logprobs": [[-0.1, 7, None]]}})

    def transport(self) -> httpx2.MockTransport:
        """The model behind an httpx client, without any network; serves sync and async clients."""

        def handle(request: httpx2.Request) -> httpx2.Response:
            if self.dead:
                raise httpx2.ConnectError("no") from ConnectionRefusedError(111, "refused")
            if self.dies_at and request.url.path.endswith(self.dies_at):
                self.dead = True
                raise httpx2.ReadError("reset")
            headers = {name.lower(): value for name, value in request.headers.items()}
            reply = self.answer(request.method, request.url.path, headers, request.content)
            return response(reply.status, reply.content_type, reply.chunks)

        return httpx2.MockTransport(handle)

    @contextmanager
    def serving(self, port: int = 0) -> Iterator[str]:
        """The model behind a port of 127.0.0.1, by default a free one; gives the base URL."""
        server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, name="fake-model", daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            if self.held is not None:
                self.held[1].set()
            server.shutdown()
            server.server_close()
            thread.join()


class Chunks(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A body in parts, for either kind of client; read twice it goes on where it was, as the network does."""

    def __init__(self, chunks: list[bytes]) -> None:
        self.chunks = list(chunks)

    def __iter__(self) -> Iterator[bytes]:
        while self.chunks:
            yield self.chunks.pop(0)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self.chunks:
            yield self.chunks.pop(0)


def response(status: int, content_type: str, chunks: list[bytes]) -> httpx2.Response:
    """An answer whose body is still to be read, as one from the network is."""
    return httpx2.Response(status, headers={"content-type": content_type}, stream=Chunks(chunks))


def error(status: int, message: str) -> Reply:
    """An error as OpenAI writes it."""
    return Reply(status, {"error": {"message": message, "type": "invalid_request_error", "code": status}})


def usage() -> dict[str, int]:
    """What each answer is said to have cost."""
    return {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}


def _tool(function: dict[str, str]) -> dict[str, Any]:
    return {"id": "call_1", "type": "function", "function": function}


def _handler(model: FakeModel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def _serve(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = model.answer(self.command, self.path, headers, raw)
            self.send_response(reply.status)
            self.send_header("content-type", reply.content_type)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            try:
                for chunk in reply.chunks:
                    self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
                    self.wfile.flush()
                if not reply.break_off:
                    self.wfile.write(b"0\r\n\r\n")
            except ConnectionError:
                self.close_connection = True  # whoever asked has gone
            self.close_connection = self.close_connection or reply.break_off

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
