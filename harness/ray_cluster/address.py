"""Which cluster is meant, and the token for it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from harness.errors import BadSetting


class RayUnreachable(Exception):
    """A cluster, its dashboard or one of its nodes can't be asked; the reason is told, and nobody waits for it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def checked_address(address: str) -> str:
    """An address that names one cluster: ``HOST:PORT`` of its control store, or ``ray://HOST:PORT`` of its client port.

    Raises:
        BadSetting: it names none. With ``auto``, Ray takes whichever cluster it finds on this machine first.
    """
    address = address.strip()
    if not re.fullmatch(r"(?:ray://)?(?:[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\]):\d{1,5}", address):
        raise BadSetting(
            f"RAY_ADDRESS={address} names no cluster for sure.",
            consequence="Ray would take whichever it finds, which may be somebody else's.",
            mend="RAY_ADDRESS=HOST:6379   # of its head, or ray://HOST:10001; `ray status` on the head shows it",
        )
    return address


def host_and_port(address: str) -> tuple[str, int]:
    """The two parts of a checked address."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    return host.strip("[]"), int(port)


def token(environ: Mapping[str, str] = os.environ) -> str:
    """The token for clusters that ask for one, looked for where Ray looks; "" where there is none."""
    if given := environ.get("RAY_AUTH_TOKEN", "").strip():
        return given
    path = environ.get("RAY_AUTH_TOKEN_PATH") or os.path.join(environ.get("HOME", "/"), ".ray", "auth_token")
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
