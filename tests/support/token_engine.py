"""A server that speaks what AReaL's vLLM engine asks for: prompts of token ids in, ``token:N`` with log-probs out.

It stands in for vLLM where the model doesn't matter: whatever it is asked, it answers with the same tokens of the tiny
model's vocabulary. Beside that it lists a model, is healthy, and answers chats, so that a whole check can run.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.tiny_model import END, vocabulary

KEY = "sk-token-engine-0123456789"


@dataclass
class TokenEngine:
    """Answers every prompt alike.

    Args:
        dies_after: completions after which every connection is closed without an answer; None for never.
        asked: the bodies of the completions that were asked for.
        key: what a request has to carry; empty for none.
    """

    text: str = "Paris"
    dies_after: int | None = None
    asked: list[dict[str, Any]] = field(default_factory=list)
    key: str = KEY

    def __post_init__(self) -> None:
        tokens, _ = vocabulary()
        ids = {token: number for number, token in enumerate(tokens)}
        self.answer = [*(ids[letter] for letter in self.text), ids[END]]

    def completion(self, body: dict[str, Any]) -> dict[str, Any]:
        """What ``/v1/completions`` answers."""
        self.asked.append(body)
        logprobs = {
            "tokens": [f"token:{token}" for token in self.answer],
            "token_logprobs": [-0.25 - 0.5 * place for place in range(len(self.answer))],
        }
        choice = {"index": 0, "text": self.text, "finish_reason": "stop", "logprobs": logprobs}
        usage = {"prompt_tokens": len(body.get("prompt", [])), "completion_tokens": len(self.answer)}
        return {"id": f"cmpl-{len(self.asked)}", "object": "text_completion", "choices": [choice], "usage": usage}

    @property
    def dead(self) -> bool:
        """Whether nobody is answered any more."""
        return self.dies_after is not None and len(self.asked) >= self.dies_after

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Serve on a free port; gives the base URL."""
        engine = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                listed = {"object": "list", "data": [{"id": "tiny", "object": "model"}]}
                self._send(listed if self.path.endswith("/models") else {})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
                if engine.key and self.headers.get("authorization") != f"Bearer {engine.key}":
                    self._send({"error": {"message": "no key"}}, 401)
                elif self.path != "/v1/completions":
                    self._send({"error": {"message": "not here"}}, 404)
                elif engine.dead:
                    self.close_connection = True
                else:
                    self._send(engine.completion(body))

            def _send(self, value: Any, status: int = 200) -> None:
                content = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
