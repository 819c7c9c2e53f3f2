"""Errors in the shape that the caller's SDK understands: OpenAI's, or Anthropic's on its own paths."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse

_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


def is_anthropic(path: str) -> bool:
    """Whether a path belongs to the Anthropic API."""
    return path == "/v1/messages" or path.startswith("/v1/messages/")


def error_body(path: str, status: int, message: str, *, code: str | None = None, param: str | None = None) -> Any:
    """The error as a JSON value in the format of the API that `path` belongs to."""
    if is_anthropic(path):
        kind = _ANTHROPIC_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}}
    kind = _OPENAI_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def error_response(
    path: str,
    status: int,
    message: str,
    *,
    code: str | None = None,
    param: str | None = None,
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """The error as a response."""
    return JSONResponse(error_body(path, status, message, code=code, param=param), status_code=status, headers=headers)


def error_event(path: str, message: str) -> bytes:
    """The error as a server-sent event, for a stream whose status has already gone out.

    The blank lines in front end an event that was cut in the middle. Both SDKs raise on such an event.
    """
    name = "event: error\n" if is_anthropic(path) else ""
    return f"\n\n{name}data: {json.dumps(error_body(path, 502, message))}\n\n".encode()
