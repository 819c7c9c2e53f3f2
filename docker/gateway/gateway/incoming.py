"""What happens to a request's body on its way in: parsed, its model name mapped, silent ignoring refused."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response
from starlette.types import Scope

from gateway.api_errors import error_response
from gateway.engine_client import EngineClient
from gateway.names import ModelNames
from gateway.refusals import GENERATION, EngineFacts, api_of, find_refusal


class Answered(Exception):
    """The gateway answers this request itself."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status_code)
        self.response = response


class RequestCheck:
    """Decides what the engine gets to see of a request."""

    def __init__(self, engine: EngineClient, engine_kind: str, names: ModelNames) -> None:
        self._engine = engine
        self._kind = engine_kind
        self._names = names
        self.facts = EngineFacts()

    async def checked(self, scope: Scope, body: bytes) -> bytes:
        """The body to send on: byte for byte as it came, unless its model name had to be replaced.

        Raises Answered for a request that the engine shall not see.
        """
        path: str = scope["path"]
        if scope["method"] != "POST" or not body:
            return body
        if _content_type(scope).startswith("multipart/"):
            if self._kind == "llamacpp":  # it would accept any model name in the form
                raise Answered(error_response(path, 400, "llama.cpp takes no uploads here; send JSON."))
            return body
        value = _parse(path, body)
        if not isinstance(value, dict):
            return body  # the engine says best what it expected instead
        name = await self._engine_name(path, value.get("model"))
        refused = find_refusal(self._kind, path, value, self.facts)
        if refused is not None:
            raise Answered(error_response(path, 400, refused.message, code="unsupported", param=refused.field))
        if name is None or name == value.get("model"):
            return body
        return json.dumps({**value, "model": name}).encode()

    async def _engine_name(self, path: str, name: Any) -> str | None:
        """The engine's own name for what the request calls `name`; None to leave the request without one."""
        if name is None:
            # Clients of a server with one model leave it out; vLLM's Anthropic route insists on it.
            return self._names.served if api_of(path) in GENERATION else None
        if not isinstance(name, str):
            raise Answered(error_response(path, 400, "'model' must be a string.", param="model"))
        resolved = self._names.resolve(name)
        if resolved is None:
            await self._engine.refresh_names(self._names)
            resolved = self._names.resolve(name)
        if resolved is None:
            message = self._names.unknown_message(name)
            raise Answered(error_response(path, 404, message, code="model_not_found", param="model"))
        return resolved


def _content_type(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"content-type":
            return str(value.decode("latin-1")).lower()
    return ""


def _parse(path: str, body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Answered(error_response(path, 400, f"The request body is not valid JSON: {error}.")) from error
