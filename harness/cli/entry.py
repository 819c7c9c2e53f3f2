"""Where the command ``harness`` begins: a warm `up` goes the short way, everything else through the verbs' files."""

from __future__ import annotations

import io
import os
import sys

from harness.places import home


def main() -> None:
    """Run the command and leave with its exit code."""
    arguments = sys.argv[1:]
    _print_in_any_encoding()
    if _everything_is_up(arguments):
        sys.exit(0)
    # Not above: what the verbs need takes longer to import than a warm `up` takes in all.
    try:
        from harness.cli.main import run

        sys.exit(run(arguments))
    except KeyboardInterrupt:
        # While it was being imported, or once `run` had said all: nobody wants a traceback for that.
        sys.stderr.write("✗ Stopped by Ctrl-C.\n")
        sys.exit(130)


def _print_in_any_encoding() -> None:
    """Where signs are none of the terminal's (LANG=zh_CN.GBK has no ✓), show ? for them rather than fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def _everything_is_up(arguments: list[str]) -> bool:
    if arguments != ["up"] or os.environ.get("JSON", "") not in ("", "0"):
        return False
    from harness.cli.already import said_so

    try:
        return said_so(home(), os.environ)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception:  # noqa: BLE001  # the full `up` will meet it again, and says it properly
        return False


if __name__ == "__main__":
    main()
