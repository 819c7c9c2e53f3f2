"""What the gateway itself asks the engine: is it up, one token, its counters, the names it serves."""

from __future__ import annotations

from typing import Any

import httpx2

from gateway.config import Config
from gateway.engines import ENGINES, sum_counters
from gateway.health import EngineProbeError
from gateway.names import ModelNames
from gateway.refusals import EngineFacts

# For questions that need no generation. A hung engine shall not pile up questions.
ASK_SECONDS = 5.0


def make_http_client(config: Config) -> httpx2.AsyncClient:
    """The one client for the engine.

    No time limit but for connecting: a generation may take as long as it takes. No connection is kept: the engines
    close idle ones after 5 s, and a request sent at that very moment would fail; a new connection on the loopback costs
    less than a tenth of a millisecond. The environment's proxies are for the outside, never for the loopback.
    """
    return httpx2.AsyncClient(
        base_url=config.engine_url,
        timeout=httpx2.Timeout(None, connect=60.0),
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
        trust_env=False,
        follow_redirects=False,
    )


class EngineClient:
    """Asks the engine on behalf of the gateway."""

    def __init__(self, http: httpx2.AsyncClient, config: Config) -> None:
        self._http = http
        self._config = config

    async def is_up(self) -> bool:
        """Whether the engine says that its model is loaded."""
        try:
            response = await self._http.get("/health", timeout=ASK_SECONDS)
        except httpx2.HTTPError:
            return False
        return response.status_code == 200

    async def generate_one_token(self) -> None:
        """Let the engine generate one token."""
        body = {"model": self._config.served_name, "prompt": "Hello", "max_tokens": 1}
        try:
            response = await self._http.post("/v1/completions", json=body)
        except httpx2.HTTPError as error:
            raise EngineProbeError(f"{type(error).__name__}: {error}") from error
        if response.status_code != 200:
            raise EngineProbeError(f"HTTP {response.status_code}: {response.text[:300]}")

    async def token_count(self) -> float | None:
        """The sum of the engine's work counters; None when it does not answer."""
        try:
            response = await self._http.get("/metrics", timeout=ASK_SECONDS)
        except httpx2.HTTPError:
            return None
        return sum_counters(response.text, ENGINES[self._config.engine].counters)

    async def refresh_names(self, names: ModelNames) -> None:
        """Tell `names` what the engine lists now; adapters can come and go while it runs."""
        listing = await self._get_json("/v1/models")
        models = listing.get("data", [])
        names.learn([model["id"] for model in models if isinstance(model, dict) and isinstance(model.get("id"), str)])

    async def read_facts(self) -> EngineFacts:
        """What refusals depend on. Only llama.cpp tells (and needs it)."""
        if self._config.engine != "llamacpp":
            return EngineFacts()
        capabilities = (await self._get_json("/props")).get("chat_template_caps", {})
        return EngineFacts(template_has_tools=capabilities.get("supports_tools", True) is not False)

    async def _get_json(self, path: str) -> dict[str, Any]:
        try:
            response = await self._http.get(path, timeout=ASK_SECONDS)
            value = response.json()
        except (httpx2.HTTPError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}
