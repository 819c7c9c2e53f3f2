"""The commands of the documentation, as its pages mark them.

A fenced block of shell commands stands below one of these marks:

* ``<!-- run -->``: it is run by ``tests/scenarios/stack/test_docs.py``, in order, and ends with 0;
* ``<!-- run: ends with 2 -->``: the same, and its last command fails with that exit code, as the page says;
* ``<!-- not run: REASON -->``: the tests lack what it needs. Its verbs and settings are still looked up, and a shell
  parses it.

Below a block that is run, a fenced text with ``<!-- printed -->`` above it is held against what the block printed:
each line has to be there, numbers apart; ``…`` stands for anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

CLONE = Path(__file__).resolve().parents[2]
PAGES = [CLONE / "README.md", CLONE / "README.zh-CN.md", *sorted((CLONE / "docs").glob("*.md"))]

_FENCE = re.compile(
    r"(?:^<!-- (?P<mark>run|run: ends with (?P<code>\d+)|not run: (?P<reason>[^\n]+)|printed) -->\n)?"
    r"^```(?P<language>[a-z]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass
class Block:
    """One block of shell commands.

    Args:
        line: where it begins in its page, from 1.
        code: the exit code that it ends with; None: it isn't run.
        reason: why it isn't run; "": nothing was said.
        printed: lines that it has to print.
    """

    line: int
    commands: str
    code: int | None
    reason: str = ""
    printed: tuple[str, ...] = ()

    def missing(self, output: str) -> list[str]:
        """Which lines of those that the page shows are not in what the block printed."""
        lines = [_plain(line) for line in output.splitlines()]
        return [shown for shown in self.printed if not any(_matches(shown, line) for line in lines)]


def blocks(text: str) -> list[Block]:
    """All blocks of shell commands of a page."""
    found: list[Block] = []
    for match in _FENCE.finditer(text):
        mark = match["mark"] or ""
        if mark == "printed":
            lines = [line for line in match["text"].splitlines() if line.strip() not in ("", "…")]
            assert found, "nothing was run that could have printed this"
            assert found[-1].code is not None, "what isn't run can't be held against what it printed"
            found[-1].printed += tuple(line for line in lines if not line.startswith("$ "))
        elif match["language"] == "sh":
            code = int(match["code"] or 0) if mark.startswith("run") else None
            found.append(Block(text[: match.start("text")].count("\n"), match["text"], code, match["reason"] or ""))
        else:
            assert not mark, f"a mark without commands: {mark}"
    return found


def marks(text: str) -> int:
    """How many marks a page has; each has to belong to a block."""
    return len(re.findall(r"^<!-- (?:run|not run|printed)\b", text, re.MULTILINE))


def marked(text: str) -> int:
    """How many fenced blocks have a mark."""
    return sum(1 for match in _FENCE.finditer(text) if match["mark"])


def _plain(line: str) -> str:
    """Numbers become N, blanks one: what differs from run to run."""
    return re.sub(r"\d+(?:[.,]\d+)*", "N", " ".join(line.split()))


def _matches(shown: str, line: str) -> bool:
    parts = [re.escape(_plain(part)) for part in shown.split("…")]
    return re.fullmatch(".*".join(parts), line) is not None
