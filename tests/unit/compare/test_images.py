"""Images in the forms that data sets have, and what goes to a server."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from harness.compare import images
from harness.compare.conversations import read
from harness.errors import UsageError

_INSIDE = "data:image/png;base64,AAAA"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.png", "b.jpg"):
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


def shown(messages: list[dict[str, Any]]) -> list[str]:
    """Text, and names of images, in their order."""
    return [Path(part["image"]).name if part["type"] == "image" else part["text"] for part in messages[0]["content"]]


@pytest.mark.parametrize("part", [
    {"type": "image_url", "image_url": {"url": "a.png"}},
    {"type": "image_url", "image_url": "a.png"},
    {"type": "input_image", "image_url": "file://a.png"},
    {"type": "image", "path": "a.png"},
    {"type": "image", "image": "a.png"},
])  # fmt: skip
def test_a_part_of_a_message(part: dict[str, Any], folder: Path) -> None:
    found = images.found({}, [{"role": "user", "content": [{"type": "text", "text": "see"}, part]}], folder)
    assert shown(found) == ["see", "a.png"]
    assert images.count(found) == 1


def test_images_beside_the_messages_stand_where_the_text_has_them(folder: Path) -> None:
    messages = [{"role": "user", "content": "<image>one<image> two"}]
    row = {"images": ["a.png", {"path": "b.jpg"}]}
    assert shown(images.found(row, messages, folder)) == ["a.png", "one", "b.jpg", " two"]
    with pytest.raises(images.Unusable, match="2 images beside the messages, and 1 times <image>"):
        images.found(row, [{"role": "user", "content": "<image>"}], folder)
    # Without images beside it, the word is a word.
    assert images.found({}, messages, folder) == messages


def test_a_server_gets_them_within_the_request(folder: Path) -> None:
    content = [{"type": "image", "image": "b.jpg"}, {"type": "image", "image": _INSIDE}, {"type": "text", "text": "x"}]
    (message,) = images.to_server(images.found({}, [{"role": "user", "content": content}], folder))
    urls = [part["image_url"]["url"] for part in message["content"][:2]]
    assert urls == [f"data:image/jpeg;base64,{base64.b64encode(b'b.jpg').decode()}", _INSIDE]
    assert message["content"][2] == {"type": "text", "text": "x"}
    assert images.to_server([{"role": "user", "content": "x"}]) == [{"role": "user", "content": "x"}]


@pytest.mark.parametrize(("part", "words"), [
    ({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}, "isn't fetched: put the image into"),
    ({"type": "image", "image": "none.png"}, "there is no image"),
    ({"type": "image_url", "image_url": {}}, "neither a file nor a data: URL"),
    ({"type": "video", "video": "a.mp4"}, "a part of type video"),
])  # fmt: skip
def test_what_cannot_be_had_is_named_by_its_line(part: dict[str, Any], words: str, folder: Path) -> None:
    data = folder / "data.jsonl"
    data.write_text(json.dumps({"messages": [{"role": "user", "content": [part]}]}) + "\n")
    with pytest.raises(UsageError, match=f"data.jsonl, line 1: .*{words}"):
        list(read(data))
