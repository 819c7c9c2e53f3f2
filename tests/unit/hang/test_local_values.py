"""Secrets in local variables are hidden by name, by look, and where they are the process's own."""

from __future__ import annotations

import json

from harness.hang.local_values import cleaned
from harness.runs.redact import Redactor


def test_values_of_variables_only() -> None:
    names = {
        "api_key": "'anything'",
        "batch": "[7, 8]",
        "header": "{'Authorization': 'Bearer abcdef0123456789'}",
        "url": "'https://user:hunter22@host/'",
        "copied": "'the-known-secret'",
        "unknown": None,
    }
    local = [{"name": name, "repr": value} for name, value in names.items()]
    threads = [{"frames": [{"name": "step", "locals": local}, {"name": "main", "locals": None}]}, {"frames": None}]
    found = json.loads(cleaned(json.dumps(threads).encode(), Redactor(["the-known-secret"])))
    shown = {variable["name"]: variable["repr"] for variable in found[0]["frames"][0]["locals"]}
    assert shown["batch"] == "[7, 8]"
    assert shown["unknown"] is None
    assert not [word for word in ("anything", "abcdef", "hunter22", "the-known") if word in json.dumps(shown)]
    assert found[0]["frames"][1]["name"] == "main"


def test_what_is_no_dump_stays() -> None:
    assert cleaned(b"Thread 0x1 (most recent call first):", Redactor()) == b"Thread 0x1 (most recent call first):"
