"""Agents written for one test, and what the lint says of them."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

from harness.checks.findings import Finding
from harness.checks.lint.run import lint

# A right agent around what a test is about.
FRAME = """
import asyncio
import copy
import os
from collections import Counter, deque

import httpx
from openai import AsyncOpenAI

{top}


class Agent:
    async def run(self, data, **extra_kwargs):
        client = AsyncOpenAI(
            base_url=extra_kwargs["base_url"],
            api_key=extra_kwargs["api_key"],
            http_client=extra_kwargs["http_client"],
        )
{run}

    async def ask(self, client, messages):
        return await client.chat.completions.create(model="m", messages=messages, max_tokens=16)

    async def judge(self, text):
        return 1.0

{methods}
"""


def said(folder: Path, source: str, agent: str = "agent.py:Agent") -> dict[str, Finding]:
    """The findings on a file's agent, by the rule's code."""
    (folder / "agent.py").write_text(dedent(source))
    report = lint(agent, None, [folder])
    return {one.id.removeprefix("lint."): one for one in report.findings if one.status in ("fail", "warn")}


def around(folder: Path, run: str, *, top: str = "", methods: str = "") -> dict[str, Finding]:
    """The findings on an agent that is right but for what is given."""
    source = FRAME.format(
        top=dedent(top),
        run=indent(dedent(run).strip(), " " * 8),
        methods=indent(dedent(methods), " " * 4),
    )
    return said(folder, source)
