"""Scenario tests run real containers and processes; what a failed one saw is kept in test-artefacts/."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from tests.support.harness import CLONE, Stack, docker

ARTEFACTS = CLONE / "test-artefacts"


class ByFolder(LoadScopeScheduling):  # type: ignore[misc]
    """What a folder's tests share (a stack, its name, its ports) stays with one of the processes that run tests."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.removeprefix("tests/scenarios/").partition("/")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFolder:
    """How `-n` deals out these tests, whatever `--dist` says."""
    return ByFolder(config, log)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Keep logs and output of every stack that a failed test used."""
    outcome: Any = yield
    report = outcome.get_result()
    if not report.failed:
        return
    for name, value in getattr(item, "funcargs", {}).items():
        if isinstance(value, Stack):
            keep(value, ARTEFACTS / item.name.replace("/", "_") / name)


def keep(stack: Stack, folder: Path) -> None:
    """Write what a stack did and what its containers logged."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "commands.txt").write_text("\n\n".join(map(str, stack.history)))
    for container in docker(
        "ps",
        "-a",
        "--format",
        "{{.Names}}",
        "--filter",
        f"label=com.docker.compose.project={stack.project}",
        check=False,
    ).split():
        (folder / f"{container}.log").write_text(docker("logs", "--tail", "2000", container, check=False))
        (folder / f"{container}.json").write_text(docker("inspect", container, check=False))
