"""How this process answers: one JSON document a line."""

from __future__ import annotations

import json
import socket
from typing import Any


def send(connection: socket.socket, message: dict[str, Any]) -> None:
    """Write one line."""
    connection.sendall(json.dumps(message, default=str).encode() + b"\n")


def try_send(connection: socket.socket, message: dict[str, Any]) -> None:
    """The same, for somebody who may have gone."""
    try:
        send(connection, message)
    except OSError:
        pass
