"""``python -m gateway.healthcheck``: for Docker. Exit code 0 for healthy; the reason is printed, Docker keeps it.

Only the standard library: it runs every few seconds on a machine whose cores are busy.
"""

from __future__ import annotations

import http.client
import json
import os
import sys

from gateway.config import DEFAULT_PORT, ConfigError, key_file, read_key

# A little more than /health itself takes at most (HEALTH_SECONDS, 15 by default).
MARGIN_SECONDS = 5.0


def main() -> int:
    """Ask /health once."""
    try:
        key = read_key(key_file(os.environ))
    except ConfigError as error:
        print(error)
        return 1
    seconds = float(os.environ.get("HEALTH_SECONDS") or 15) + MARGIN_SECONDS
    port = int(os.environ.get("GATEWAY_PORT") or DEFAULT_PORT)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        connection.request("GET", "/health", headers={"Authorization": f"Bearer {key}"})
        response = connection.getresponse()
        text = response.read().decode(errors="replace")
    except OSError as error:
        print(f"unhealthy: the gateway does not answer: {error}")
        return 1
    try:
        health = json.loads(text)
        print(f"{health['status']}: {health['reason']}")
    except (ValueError, KeyError, TypeError):
        print(f"unhealthy: HTTP {response.status}: {text[:200]}")
    return 0 if response.status == 200 else 1


if __name__ == "__main__":
    sys.exit(main())
