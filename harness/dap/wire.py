"""The protocol's frames: a header with the length, an empty line, a JSON object."""

from __future__ import annotations

import json
from typing import Any, BinaryIO

# A hostile or broken peer must not make us reserve memory without end.
LONGEST = 256 << 20


def encode(message: dict[str, Any]) -> bytes:
    """A message as it goes over the wire."""
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def read(stream: BinaryIO) -> dict[str, Any] | None:
    """The next message; None at the end of the stream.

    Raises:
        ValueError: what comes is no message of this protocol.
    """
    length = None
    while True:
        line = stream.readline(1000)
        if not line:
            return None
        if not line.strip():
            break
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            length = int(value)
    if length is None or not 0 < length <= LONGEST:
        raise ValueError("no length")
    body = stream.read(length)
    if len(body) < length:
        return None
    try:
        message = json.loads(body)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(message, dict):
        raise ValueError("no object")
    return message
