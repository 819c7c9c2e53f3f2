"""The gateway as one ASGI application: the key first, then its own few routes, then the engine's API."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from gateway.api_errors import error_response
from gateway.auth import KeyRequired
from gateway.config import Config
from gateway.engine_client import EngineClient
from gateway.engines import context_of
from gateway.health import EngineProcess, check_health
from gateway.incoming import RequestCheck
from gateway.names import ModelNames
from gateway.progress import Progress
from gateway.proxy import Proxy
from gateway.upstream import Upstream


class Gateway:
    """Ties the parts together and holds what they share."""

    def __init__(self, config: Config, process: EngineProcess, upstream: Upstream, *, engine_version: str) -> None:
        self._config = config
        self._process = process
        self._engine_version = engine_version
        self._started = time.time()
        self.client = EngineClient(upstream, config)
        self.names = ModelNames(config.model_names)
        self.progress = Progress()
        self._check = RequestCheck(self.client, config.engine, self.names)
        self._proxy = Proxy(upstream, self._check, self.progress)
        routes = [
            Route("/health", self._health),
            Route("/drydock/state", self._state),
            Route("/v1/models", self._models),
            Route("/v1/models/{name:path}", self._model),
            Mount("/", app=self._proxy),
        ]
        self.app: ASGIApp = KeyRequired(
            Starlette(routes=routes, exception_handlers={Exception: _internal_error}), config.api_key
        )

    async def engine_is_ready(self) -> None:
        """Open the door: from now on requests reach the engine."""
        self._check.facts = await self.client.read_facts()
        await self.client.refresh_names(self.names)
        self._proxy.loading = False

    async def _health(self, _request: Request) -> Response:
        health = await check_health(self._process, self.client, self.progress, seconds=self._config.health_seconds)
        return JSONResponse(asdict(health), status_code=200 if health.healthy else 503)

    async def _state(self, _request: Request) -> Response:
        return JSONResponse(
            {
                "engine": self._config.engine,
                "engine_version": self._engine_version,
                "engine_pid": self._process.pid,
                "engine_state": self._process.state,
                "uptime_seconds": round(time.time() - self._started, 3),
                "in_flight": self.progress.in_flight,
                "completed": self.progress.completed,
                "failed": self.progress.failed,
                "seconds_since_completed": self.progress.seconds_since_completed(),
                "model_names": self.names.all,
                "served_name": self.names.served,
                "context": context_of(self._config),
                "threads": self._config.threads,
            }
        )

    async def _models(self, _request: Request) -> Response:
        await self.client.refresh_names(self.names)
        entries = [self._model_entry(name) for name in self.names.all]
        ends = {"has_more": False, "first_id": entries[0]["id"], "last_id": entries[-1]["id"]}
        return JSONResponse({"object": "list", "data": entries, **ends})

    async def _model(self, request: Request) -> Response:
        name = request.path_params["name"]
        if self.names.resolve(name) is None:
            message = self.names.unknown_message(name)
            return error_response(request.url.path, 404, message, code="model_not_found", param="model")
        return JSONResponse(self._model_entry(name))

    def _model_entry(self, name: str) -> dict[str, Any]:
        """One model, in the fields of OpenAI's and of Anthropic's listing together; neither SDK minds the other's."""
        created_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._started))
        openai = {"id": name, "object": "model", "created": int(self._started), "owned_by": "drydock"}
        anthropic = {"type": "model", "display_name": name, "created_at": created_at}
        own = {"root": self.names.resolve(name), "max_model_len": context_of(self._config)}
        return {**openai, **anthropic, **own}


async def _internal_error(request: Request, error: Exception) -> Response:
    """A mistake of the gateway's own, in a format that SDKs can show; the traceback goes to the log."""
    message = f"The gateway itself failed ({type(error).__name__}). See the log of the inference service."
    return error_response(request.url.path, 500, message)
