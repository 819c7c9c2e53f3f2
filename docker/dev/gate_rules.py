"""Who may pass the gate in front of Ray's dashboard; pure, and the standard library only.

Ray itself hands its page, its icon and its health to anybody, and before Docker 28 a port published on 127.0.0.1 can
be reached by the machine's neighbours. So the gate lets nothing through without the token:

* programs send it as ``Authorization: Bearer TOKEN``, as Ray's own clients do;
* browsers are asked for a password, which is the token (the user's name doesn't matter). A browser sends that along
  with requests that other sites cause, too; such requests are told by their Host, Origin and Sec-Fetch-Site.

In `dev` whoever can reach the loopback can read the token anyway. So the relay there, and the gate with RAY_AUTH=off,
asks for none; what remains is to turn away what other sites cause in a browser.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
OWN_HOSTS = LOOPBACK | {"ray-head"}


def refusal(headers: Mapping[str, str], token: str) -> tuple[int, str] | None:
    """Status and reason with which a request is refused, None if it may pass.

    Args:
        headers: the request's, by name in any letter case (a case-insensitive mapping).
        token: the cluster's.
    """
    scheme, _, credentials = headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and same(credentials.strip(), token):
        return None
    if scheme.lower() != "basic" or not same(_password(credentials), token):
        return 401, "The token is missing or wrong: .drydock/PROJECT/secrets/ray_token has it."
    return foreign(headers, OWN_HOSTS)


def foreign(headers: Mapping[str, str], hosts: Collection[str] = LOOPBACK) -> tuple[int, str] | None:
    """Status and reason for a request that another site has caused in a browser; None for all others.

    Args:
        hosts: names by which this address may be called; a forwarded port may have any number.
    """
    if _name(f"//{headers.get('Host', '')}") not in hosts:
        return 403, "This host name is not one of the dashboard's own."
    origin = headers.get("Origin")
    if origin is not None and _netloc(origin) != headers.get("Host"):
        return 403, "Another site caused this request."
    if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        return 403, "Another site caused this request."
    return None


def same(given: str, token: str) -> bool:
    """Compare without telling by the time it takes; an empty token fits nothing."""
    return bool(token) and hmac.compare_digest(given.encode(), token.encode())


def _password(credentials: str) -> str:
    try:
        return base64.b64decode(credentials, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _name(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _netloc(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""
