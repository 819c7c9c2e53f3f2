"""Images in conversations: found in the forms that data sets have, and brought into those that both sides take.

Within ``compare`` a message's content is text or a list of ``{"type": "text", "text": …}`` and
``{"type": "image", "image": …}``, where the image is a file of this machine or a ``data:`` URL.
"""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# Where verl's and other data sets have a row's images in the text.
MARK = "<image>"
_DATA = "data:image/"


class Unusable(Exception):
    """An image that can't be had; says why."""


def found(row: Mapping[str, Any], messages: Sequence[Mapping[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Messages with every image in its place.

    Args:
        row: a line of the data; ``images`` beside the messages stand where ``<image>`` is in their texts.
        folder: from which relative names count.

    Raises:
        Unusable: an image is not there, or is in a form that isn't known.
    """
    if not all(isinstance(message.get("content"), (str, list, type(None))) for message in messages):
        raise Unusable("a message's content is neither a text nor a list of parts")
    beside = [_image(one, folder) for one in _beside(row)]
    texts = [part for message in messages for part in _texts(message.get("content"))]
    marks = sum(text.count(MARK) for text in texts)
    if beside and marks != len(beside):
        raise Unusable(f"{len(beside)} images beside the messages, and {marks} times {MARK} in their texts")
    left = iter(beside)
    return [
        {**message, "content": _content(message.get("content"), left, folder, bool(beside))} for message in messages
    ]


def count(messages: Sequence[Mapping[str, Any]]) -> int:
    """How many images messages have that ``found`` has made."""
    parts = [part for message in messages for part in _parts(message)]
    return sum(part.get("type") == "image" for part in parts)


def to_server(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same as OpenAI's API takes it: images within the request."""
    return [
        {**message, "content": [_openai(part) for part in _parts(message)]} if _parts(message) else dict(message)
        for message in messages
    ]


def _parts(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    return [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []


def _openai(part: Mapping[str, Any]) -> dict[str, Any]:
    if part.get("type") != "image":
        return dict(part)
    image = str(part["image"])
    if not image.startswith(_DATA):
        kind = mimetypes.guess_type(image)[0] or "image/png"
        image = f"data:{kind};base64,{base64.b64encode(Path(image).read_bytes()).decode()}"
    return {"type": "image_url", "image_url": {"url": image}}


def _beside(row: Mapping[str, Any]) -> list[Any]:
    given = row.get("images") or row.get("image") or []
    return list(given) if isinstance(given, list) else [given]


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [str(part.get("text") or "") for part in content or () if isinstance(part, Mapping)]


def _content(content: Any, left: Any, folder: Path, marked: bool) -> Any:
    if isinstance(content, str) and not (marked and MARK in content):
        return content
    parts: list[dict[str, Any]] = []
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else content or []:
        if not isinstance(part, Mapping):
            raise Unusable("a part of a message is no object")
        kind = part.get("type")
        if kind in (None, "text", "input_text"):
            pieces = str(part.get("text") or "").split(MARK) if marked else [str(part.get("text") or "")]
            for number, piece in enumerate(pieces):
                parts += [{"type": "image", "image": next(left)}] if number else []
                parts += [{"type": "text", "text": piece}] if piece else []
        elif kind in ("image", "image_url", "input_image"):
            parts.append({"type": "image", "image": _image(part.get("image_url") or part, folder)})
        else:
            raise Unusable(f"a message has a part of type {kind}; text and images can be compared")
    return parts


def _image(given: Any, folder: Path) -> str:
    if isinstance(given, Mapping):
        given = next((given[name] for name in ("path", "image", "url") if given.get(name)), None)
    if not isinstance(given, str) or not given:
        raise Unusable("an image is neither a file nor a data: URL")
    if given.startswith(_DATA):
        return given
    if given.startswith(("http://", "https://", "data:")):
        raise Unusable(f"{given[:80]} isn't fetched: put the image into a file")
    path = (folder / given.removeprefix("file://")).expanduser()
    if not path.is_file():
        raise Unusable(f"there is no image {path}")
    return str(path.resolve())
