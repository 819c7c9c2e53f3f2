"""What differs between two fingerprints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BadSetting
from harness.stack.portrait import differences, read

MINE: dict[str, Any] = {
    "drydock": {"version": "1"},
    "gpus": {"gpus": [{"index": "0", "name": "H100"}], "amd": False},
    "images": {
        "dev": {
            "id": "sha256:a",
            "digests": [],
            "environments": {"/opt/venv": {"packages": {"ray": "2.60.0", "torch": "2.13.0"}}},
        }
    },
    "model": {"files": {"model.safetensors": "sha256:1"}},
}


def changed(**parts: Any) -> dict[str, Any]:
    return {**json.loads(json.dumps(MINE)), **parts}


def test_equal_ones_differ_in_nothing() -> None:
    assert differences(MINE, changed()) == []


def test_what_differs_is_named_to_the_last_package() -> None:
    theirs = changed(
        images={
            "dev": {"id": "sha256:b", "environments": {"/opt/venv": {"packages": {"ray": "2.55.1", "vllm": "0.24.0"}}}}
        }
    )
    assert differences(theirs, MINE) == [
        ("images.dev.id", "sha256:b", "sha256:a"),
        ("images.dev.environments./opt/venv.packages.ray", "2.55.1", "2.60.0"),
        ("images.dev.environments./opt/venv.packages.torch", "", "2.13.0"),
        ("images.dev.environments./opt/venv.packages.vllm", "0.24.0", ""),
    ]


def test_a_card_more_and_another_file_of_weights_show() -> None:
    theirs = changed(gpus={"gpus": [], "amd": False}, model={"files": {"model.safetensors": "sha256:2"}})
    assert [what for what, _, _ in differences(theirs, MINE)] == [
        "gpus.gpus.0.index",
        "gpus.gpus.0.name",
        "model.files.model.safetensors",
    ]


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "can't be read"), ("{", "is no JSON"), ("[]", "no fingerprint"), ("{}", "no fingerprint")],
)
def test_what_is_no_fingerprint_is_refused(tmp_path: Path, content: str | None, says: str) -> None:
    path = tmp_path / "theirs.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(BadSetting, match=says):
        read(path)
