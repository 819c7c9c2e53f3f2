"""The commands in the documentation work as they stand there.

A fenced block with ``<!-- run -->`` in the line above it is run in a shell, in the clone. What a reader has by default
(ports 8080 and 8265, the project `drydock`) is replaced by what the tests' own stack has, and home folders by a test's.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.harness import CLONE, Ended, Stack

pytestmark = pytest.mark.docker

MARKED = re.compile(r"^<!-- run -->\n```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One block of commands."""

    page: str
    number: int
    commands: str


def blocks() -> list[Block]:
    """All marked blocks, in the order in which a reader meets them."""
    pages = [CLONE / "README.md", *sorted((CLONE / "docs").glob("*.md"))]
    return [
        Block(str(page.relative_to(CLONE)), number, commands)
        for page in pages
        for number, commands in enumerate(MARKED.findall(page.read_text()), start=1)
    ]


def as_here(commands: str, stack: Stack, home: Path) -> str:
    """The commands with the addresses and places of this stack."""
    replacements = {
        "127.0.0.1:8080": f"127.0.0.1:{stack.settings['PORT']}",
        "127.0.0.1:8265": f"127.0.0.1:{stack.settings['DASHBOARD_PORT']}",
        ".drydock/drydock/": f".drydock/{stack.project}/",
        "~/": f"{home}/",
    }
    for by_default, here in replacements.items():
        commands = commands.replace(by_default, here)
    return commands


def test_the_main_pages_have_commands_that_are_tried() -> None:
    tried = {block.page for block in blocks()}
    assert {"README.md", "docs/serve.md", "docs/checks.md", "docs/your-project.md"} <= tried
    # A marker that no block follows would try nothing.
    for page in [CLONE / "README.md", *(CLONE / "docs").glob("*.md")]:
        text = page.read_text()
        assert text.count("<!-- run -->") == len(MARKED.findall(text)), page.name


@pytest.mark.parametrize("block", blocks(), ids=lambda block: f"{block.page}, block {block.number}")
def test_the_commands_work(up: Stack, block: Block, tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", as_here(block.commands, up, tmp_path)],
        env=up.environment(),
        cwd=CLONE,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=600,
        check=False,
    )
    up.history.append(
        Ended(("block", str(block.number), "of", block.page), done.returncode, done.stdout, done.stderr, 0)
    )
    assert done.returncode == 0, f"{block.commands}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
