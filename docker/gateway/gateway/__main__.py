"""``python -m gateway``: read the settings, then serve."""

from __future__ import annotations

import logging
import os
import sys

from gateway.config import ConfigError, load_config
from gateway.server import run

BAD_SETTINGS = 3


def main() -> int:
    """Return the exit code: the engine's, or 3 for settings that cannot be served with."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="drydock gateway: %(message)s")
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    try:
        config = load_config(os.environ)
    except ConfigError as error:
        print(f"drydock gateway: {error}", file=sys.stderr, flush=True)
        return BAD_SETTINGS
    return run(config)


if __name__ == "__main__":
    sys.exit(main())
