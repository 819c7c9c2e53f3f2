"""What the gateway itself asks the engine: is it up, one token, its counters, the names it serves."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from gateway.config import Config
from gateway.engines import sum_counters
from gateway.health import EngineProbeError
from gateway.names import ModelNames
from gateway.refusals import EngineFacts
from gateway.upstream import Headers, Upstream, UpstreamError

# For questions that need no generation. A hung engine shall not pile up questions.
ASK_SECONDS = 5.0

_JSON: Headers = [(b"content-type", b"application/json")]


class EngineClient:
    """Asks the engine on behalf of the gateway."""

    def __init__(self, upstream: Upstream, config: Config) -> None:
        self._upstream = upstream
        self._config = config

    async def is_up(self) -> bool:
        """Whether the engine says that its model is loaded."""
        status, _ = await self._get(b"/health")
        return status == 200

    async def generate_one_token(self) -> None:
        """Let the engine generate one token."""
        body = json.dumps({"model": self._config.served_name, "prompt": "Hello", "max_tokens": 1}).encode()
        try:
            status, text = await self._ask("POST", b"/v1/completions", _JSON, body)
        except UpstreamError as error:
            raise EngineProbeError(str(error)) from error
        if status != 200:
            raise EngineProbeError(f"HTTP {status}: {text[:300]}")

    async def token_count(self) -> float | None:
        """The sum of the engine's work counters; None when it does not answer."""
        _, text = await self._get(b"/metrics")
        return sum_counters(text, self._config.start.counters)

    async def refresh_names(self, names: ModelNames) -> None:
        """Tell `names` what the engine lists now; adapters can come and go while it runs."""
        models = (await self._get_object(b"/v1/models")).get("data")
        models = models if isinstance(models, list) else []
        names.learn([model["id"] for model in models if isinstance(model, dict) and isinstance(model.get("id"), str)])

    async def read_facts(self) -> EngineFacts:
        """What refusals depend on. Only llama.cpp tells (and needs it)."""
        if self._config.engine != "llamacpp":
            return EngineFacts()
        capabilities = (await self._get_object(b"/props")).get("chat_template_caps", {})
        return EngineFacts(template_has_tools=capabilities.get("supports_tools", True) is not False)

    async def _get_object(self, target: bytes) -> dict[str, Any]:
        _, text = await self._get(target)
        try:
            value = json.loads(text)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}

    async def _get(self, target: bytes) -> tuple[int, str]:
        """Status and text; 0 and nothing when the engine does not answer in time."""
        try:
            return await asyncio.wait_for(self._ask("GET", target, [], b""), ASK_SECONDS)
        except (UpstreamError, asyncio.TimeoutError):
            return 0, ""

    async def _ask(self, method: str, target: bytes, headers: Headers, body: bytes) -> tuple[int, str]:
        async with self._upstream.open(method, target, headers, body) as answer:
            return answer.status, b"".join([part async for part in answer.parts()]).decode("utf-8", "replace")
