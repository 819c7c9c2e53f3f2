"""``python -m harness.breakpoints.inside``: make this environment's Python load the hook at every start."""

from __future__ import annotations

import sysconfig
from pathlib import Path

LINE = "import harness.breakpoints.inside; harness.breakpoints.inside.install()\n"


def main() -> None:
    """Write the ``.pth`` file, and say where."""
    path = Path(sysconfig.get_path("purelib")) / "drydock_debugging.pth"
    path.write_text(LINE)
    print(path)  # noqa: T201


if __name__ == "__main__":
    main()
