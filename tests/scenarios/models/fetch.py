"""Fetches the model that the environment names, as ``harness up`` does, and prints where it lies."""

from __future__ import annotations

import sys

from harness import console
from harness.errors import DrydockError
from harness.models import ensure_weights, resolve
from harness.settings import load_settings


def main() -> int:
    """Exit code as the command's own."""
    settings = load_settings()
    try:
        files = ensure_weights(resolve(settings), settings.engine, settings)
    except DrydockError as error:
        console.show_error(error)
        return error.exit_code
    print(f"fetched {files.host_path}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
