"""The secret that whoever asks a process has to know: Ray's token, or a file of this user's own."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path


def secret() -> bytes:
    """The token of the Ray cluster where there is one, else this user's key, which is made when it is missing."""
    if value := os.environ.get("RAY_AUTH_TOKEN", "").strip():
        return value.encode()
    for path in (os.environ.get("RAY_AUTH_TOKEN_PATH"), "~/.ray/auth_token"):
        try:
            if path and (text := Path(path).expanduser().read_text().strip()):
                return text.encode()
        except (OSError, RuntimeError):
            continue
    return _own_key()


def proof(key: bytes, nonce: str) -> str:
    """What shows that one knows the key, without showing it."""
    return hmac.new(key, b"drydock debugging " + nonce.encode(), hashlib.sha256).hexdigest()


def _own_key() -> bytes:
    path = Path("~/.drydock/debugging_key").expanduser()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32))
    except FileExistsError:
        pass
    # Another process may be about to write it.
    for _ in range(100):
        if text := path.read_text().strip():
            return text.encode()
    raise RuntimeError(f"{path} is empty")
