"""For pytest: ``pytest -p harness.pytest_plugin --hang-watch 5m`` dumps a test session in which nothing gets on."""

from __future__ import annotations

import contextlib
from typing import Any

import harness


def pytest_addoption(parser: Any) -> None:
    """Add the option; without it nothing is started."""
    parser.addoption(
        "--hang-watch",
        metavar="TIME",
        default="",
        help="dump all stacks, with a verdict, when nothing gets on for this long (90s, 10m)",
    )


def pytest_configure(config: Any) -> None:
    """Start the watch, outside of what pytest captures."""
    after = config.getoption("--hang-watch")
    # A worker of pytest-xdist is a child of the session that is watched.
    if not after or hasattr(config, "workerinput"):
        return
    capture = config.pluginmanager.getplugin("capturemanager")
    stack = contextlib.ExitStack()
    with capture.global_and_fixture_disabled() if capture is not None else contextlib.nullcontext():
        # A test that waits is no service: whatever stands still is worth its stacks.
        stack.enter_context(harness.watch(after, any_standstill=True))
    config.add_cleanup(stack.close)
