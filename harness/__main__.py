"""``python -m harness``: the command, for debuggers and environments without its script."""

from harness.cli.entry import main

main()
