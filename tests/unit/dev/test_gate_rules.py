"""Who may pass the gate in front of Ray's dashboard."""

from __future__ import annotations

import base64
import importlib.util
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).resolve().parents[3] / "docker" / "dev" / "gate_rules.py"
_spec = importlib.util.spec_from_file_location("gate_rules", PATH)
assert _spec is not None
assert _spec.loader is not None
gate_rules = importlib.util.module_from_spec(_spec)
sys.modules["gate_rules"] = gate_rules
_spec.loader.exec_module(gate_rules)

TOKEN = "0123abcd"


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"anybody:{password}".encode()).decode()


HERE = {"Host": "127.0.0.1:8265"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer"}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Bearer {TOKEN}"}, None),
        ({"Authorization": f"bearer {TOKEN}", "Host": "evil.example"}, None),
        ({"Authorization": TOKEN}, 401),
        ({"Authorization": basic("wrong"), **HERE}, 401),
        ({"Authorization": "Basic %%%", **HERE}, 401),
        ({"Authorization": basic(TOKEN), **HERE}, None),
        ({"Authorization": basic(TOKEN), "Host": "localhost:9000"}, None),
        ({"Authorization": basic(TOKEN), "Host": "[::1]:8265"}, None),
        # DNS rebinding: the browser believes it talks to its own site.
        ({"Authorization": basic(TOKEN), "Host": "evil.example:8265"}, 403),
        ({"Authorization": basic(TOKEN)}, 403),
        # Another site's page makes the browser send its password along.
        ({"Authorization": basic(TOKEN), **HERE, "Origin": "http://evil.example"}, 403),
        ({"Authorization": basic(TOKEN), **HERE, "Origin": "http://127.0.0.1:9999"}, 403),
        ({"Authorization": basic(TOKEN), **HERE, "Origin": "null"}, 403),
        ({"Authorization": basic(TOKEN), **HERE, "Origin": "http://127.0.0.1:8265"}, None),
        ({"Authorization": basic(TOKEN), **HERE, "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Authorization": basic(TOKEN), **HERE, "Sec-Fetch-Site": "same-site"}, 403),
        ({"Authorization": basic(TOKEN), **HERE, "Sec-Fetch-Site": "same-origin"}, None),
        ({"Authorization": basic(TOKEN), **HERE, "Sec-Fetch-Site": "none"}, None),
    ],
)
def test_only_the_token_passes_and_only_from_the_dashboards_own_page(
    headers: dict[str, str], status: int | None
) -> None:
    refused = gate_rules.refusal(headers, TOKEN)
    assert (refused[0] if refused else None) == status


def test_an_empty_token_lets_nobody_in() -> None:
    assert gate_rules.refusal({"Authorization": "Bearer "}, "") is not None
    assert gate_rules.refusal({"Authorization": basic(""), **HERE}, "") is not None
