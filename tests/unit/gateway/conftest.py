"""A gateway in this process, with an engine that is a function."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest
import pytest_asyncio

from gateway.app import Gateway
from tests.unit.gateway.support import KEY, FakeEngine, FakeProcess, make_config


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def process() -> FakeProcess:
    return FakeProcess()


@pytest_asyncio.fixture
async def gateway(engine: FakeEngine, process: FakeProcess) -> Gateway:
    """A gateway before a llama.cpp that is ready."""
    made = Gateway(make_config("llamacpp"), process, engine, engine_version="1.2.3")
    await made.engine_is_ready()
    return made


@pytest_asyncio.fixture
async def vllm_gateway(engine: FakeEngine, process: FakeProcess) -> Gateway:
    """The same before a vLLM."""
    made = Gateway(make_config("vllm"), process, engine, engine_version="1.2.3")
    await made.engine_is_ready()
    return made


@pytest_asyncio.fixture
async def client(gateway: Gateway) -> AsyncIterator[httpx2.AsyncClient]:
    """A caller with the key."""
    async with _caller(gateway) as made:
        yield made


@pytest_asyncio.fixture
async def vllm_client(vllm_gateway: Gateway) -> AsyncIterator[httpx2.AsyncClient]:
    """A caller with the key, of the vLLM gateway."""
    async with _caller(vllm_gateway) as made:
        yield made


def _caller(gateway: Gateway) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(app=gateway.app)
    return httpx2.AsyncClient(transport=transport, base_url="http://gateway", headers={"x-api-key": KEY})
