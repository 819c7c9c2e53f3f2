"""What is wrong is said of what was typed: the line of the data, and the setting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.cli import compare
from harness.compare import conversations
from harness.errors import UnknownModel, UsageError
from harness.settings import load_settings


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"question": "?"}, "has none of messages, prompt and prompt_ids, but question"),
        ({}, "but nothing"),
        ({"messages": 3}, "messages is neither a text nor a list of messages"),
        ({"prompt": {"role": "user"}}, "prompt is neither a text nor a list of messages"),
        ({"messages": [], "prompt": 7.5}, "prompt is neither a text nor a list of messages"),
    ],
)
def test_a_line_that_is_no_conversation(row: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps({"prompt": "Why?"}) + "\n" + json.dumps(row) + "\n")
    with pytest.raises(UsageError) as raised:
        list(conversations.read(path))
    assert words in str(raised.value)
    assert "2" in str(raised.value)


@pytest.mark.parametrize("named", ["/nowhere", "nowhere.gguf", "no such model"])
@pytest.mark.parametrize("setting", ["REFERENCE", "MODEL"])
def test_a_reference_that_is_not_there_is_called_what_it_was_typed_as(setting: str, named: str) -> None:
    settings = load_settings(environ={setting: named})
    with pytest.raises(UnknownModel) as raised:
        compare._weights(settings)
    said = f"{raised.value.what}\n{raised.value.mend}"
    other = "MODEL=" if setting == "REFERENCE" else "REFERENCE="
    assert f"{setting}={named}" in said
    assert other not in said
