"""The two ports: keys go where they belong, and calls are seen."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from typing import Any

from harness.checks.stage4.doors import AgentDoor, EngineDoor, as_recorded, session_mark
from harness.openai_api.calls import Call
from harness.openai_api.http import Endpoint
from harness.openai_api.recording.exchange import Exchange
from tests.support.token_engine import KEY, TokenEngine


def asked(url: str, body: dict[str, Any], **headers: str) -> int:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json", **headers})
    with urllib.request.urlopen(request, timeout=20) as answer:
        json.load(answer)
        return int(answer.status)


async def through(door: EngineDoor | AgentDoor, **headers: str) -> int:
    async with door:
        status = await asyncio.to_thread(asked, f"{door.origin}/v1/completions", {"prompt": [1, 2]}, **headers)
        await door.settled(5)
    return status


def test_areals_engine_needs_no_key_and_its_calls_are_seen() -> None:
    calls: list[Call] = []
    with TokenEngine().serving() as base_url:
        assert asyncio.run(through(EngineDoor(Endpoint(base_url, KEY), take=calls.append))) == 200
    assert [(call.path, call.status) for call in calls] == [("/v1/completions", 200)]


def test_an_agents_key_passes_unchanged_and_its_session_is_known_by_it() -> None:
    seen: list[tuple[str, Call]] = []
    kept: list[tuple[str, Exchange]] = []
    with TokenEngine().serving() as base_url:
        address = base_url.removesuffix("/v1")
        door = AgentDoor(
            address,
            took=lambda session, call: seen.append((session, call)),
            recorded=lambda session, exchange: kept.append((session, exchange)),
        )
        asyncio.run(through(door, authorization=f"Bearer {KEY}"))
    assert [(session, call.status) for session, call in seen] == [(session_mark(KEY), 200)]
    assert kept[0][0] == session_mark(KEY)
    assert KEY not in str(seen) + str(kept)


def test_what_areals_proxy_has_without_v1_is_recorded_as_everybody_elses() -> None:
    one = Exchange(0, 9, "POST", "/chat/completions", b"{}")
    assert (as_recorded(one, 3, 1).path, as_recorded(one, 3, 1).run) == ("/v1/chat/completions", 3)
    assert as_recorded(Exchange(0, 1, "POST", "/v1/messages", b"{}"), 3, 1).path == "/v1/messages"
