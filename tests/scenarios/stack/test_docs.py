"""The commands in the documentation work as they stand there, and print what the pages show.

Pages mark their blocks (``tests/support/documentation.py``). The marked blocks of a page are run in order, each in a
shell of its own in the clone, which knows what the one before has exported. What a reader has by default (ports 8080
and 8265, the project `drydock`) is replaced by what the tests' own stack has, and home folders by a test's.

The Chinese README has the English one's commands (``tests/unit/test_docs.py``), so they are run once.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support.documentation import CLONE, PAGES, Block, blocks
from tests.support.harness import Ended, Stack

pytestmark = pytest.mark.docker

RUN = {
    page: [block for block in blocks(page.read_text()) if block.code is not None]
    for page in PAGES
    if page.name != "README.zh-CN.md"
}


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


def run(block: Block, page: str, stack: Stack, home: Path, *, has_typed: bool) -> Ended:
    """Run one block; standard output and error are one text, as on a terminal.

    Args:
        has_typed: an earlier block has brought the stack up with a workspace on its command line, so there is none in
            the environment of whoever follows the page, as there is in a test's.
    """
    exported = home / ".exported"
    script = (
        f"[ ! -e {shlex.quote(str(exported))} ] || . {shlex.quote(str(exported))}\n"
        f"{'unset WORKSPACE' if has_typed else ':'}\n"
        f"trap 'export -p > {shlex.quote(str(exported))}' EXIT\n"
        f"set -euo pipefail\n{as_here(block.commands, stack, home)}"
    )
    done = subprocess.run(
        ["bash", "-c", script],
        env=stack.environment(),
        cwd=CLONE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=600,
        check=False,
    )
    ended = Ended((page, "line", str(block.line)), done.returncode, done.stdout, "", 0)
    stack.history.append(ended)
    return ended


@pytest.mark.parametrize(
    "page", [page for page, found in RUN.items() if found], ids=lambda page: str(page.relative_to(CLONE))
)
def test_the_commands_of_a_page_work(stack: Stack, page: Path, tmp_path: Path) -> None:
    name = str(page.relative_to(CLONE))
    # The page before may have left another workspace; a page that begins with `make up` says itself what it wants.
    if "make up" not in RUN[page][0].commands:
        stack.run("up").ok()
    has_typed = False
    for block in RUN[page]:
        ended = run(block, name, stack, tmp_path, has_typed=has_typed)
        has_typed |= re.search(r"^make up\b.* WORKSPACE=", block.commands, re.MULTILINE) is not None
        assert ended.code == block.code, f"{name}:{block.line}\n{block.commands}\n{ended}"
        missing = block.missing(ended.stdout)
        assert not missing, f"{name}:{block.line} didn't print {missing}\n{ended}"
