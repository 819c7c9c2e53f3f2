"""Reads what ``docker buildx build --progress=rawjson`` prints: a stream of JSON documents between other lines.

It tells, for every step of a build, when it ran and what it printed. A person sees the step that runs now; the ledger
(ledger.py) needs the times, for by them it finds the build cache that a build has made.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Step:
    """One step of a build; times as the engine writes them, "" until they are known."""

    digest: str
    name: str = ""
    started: str = ""
    completed: str = ""
    cached: bool = False
    error: str = ""


@dataclass
class SolveLog:
    """The state of a build as far as it has been read.

    Attributes:
        steps: by digest, in the order of their appearance.
        lines: everything that was printed, for the log file and for finding out what went wrong.
        current: the step that wrote last, with its last line.
    """

    steps: dict[str, Step] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    current: str = ""
    _rest: str = ""
    _partial: dict[str, str] = field(default_factory=dict)

    def feed(self, text: str) -> list[str]:
        """Take in more output; returns the new lines in a form for reading."""
        self._rest += text
        before = len(self.lines)
        for document in self._documents():
            if isinstance(document, str):
                self.lines.append(document)
            else:
                self._take(document)
        return self.lines[before:]

    def finish(self) -> list[str]:
        """Take in what stands after the last whole line or document."""
        rest, self._rest = self._rest.strip(), ""
        self.lines += rest.splitlines()
        return rest.splitlines()

    def failed(self) -> Step | None:
        """The step that ended the build, None when it wasn't a step that did."""
        return next((step for step in self.steps.values() if step.error and "context canceled" not in step.error), None)

    def _documents(self) -> Iterator[dict[str, Any] | str]:
        """Whole JSON documents and whole other lines; the rest is kept for the next time."""
        decoder = json.JSONDecoder()
        while True:
            text = self._rest.lstrip()
            if text.startswith("{"):
                try:
                    document, end = decoder.raw_decode(text)
                except json.JSONDecodeError:
                    self._rest = text
                    return  # not whole yet
                self._rest = text[end:]
                yield document
                continue
            line, newline, rest = text.partition("\n")
            if not newline:
                self._rest = text
                return
            self._rest = rest
            if line.strip():
                yield line.rstrip()

    def _take(self, document: dict[str, Any]) -> None:
        for vertex in document.get("vertexes") or []:
            self._take_step(vertex)
        for entry in document.get("logs") or []:
            self._take_output(entry)

    def _take_step(self, vertex: dict[str, Any]) -> None:
        step = self.steps.setdefault(vertex["digest"], Step(vertex["digest"]))
        news = []
        step.name = vertex.get("name", step.name)
        if vertex.get("started") and not step.started:
            news.append(step.name)
        step.started = step.started or vertex.get("started", "")
        if vertex.get("completed") and not step.completed:
            step.completed = vertex["completed"]
            if vertex.get("cached"):
                news.append(f"{step.name}: cached")
        step.cached = step.cached or bool(vertex.get("cached"))
        if vertex.get("error") and not step.error:
            step.error = vertex["error"]
            news.append(f"ERROR: {step.name}: {step.error}")
        if news:
            self.current = _short(step.name)
            self.lines += news

    def _take_output(self, entry: dict[str, Any]) -> None:
        digest = entry.get("vertex", "")
        text = self._partial.pop(digest, "") + base64.b64decode(entry.get("data", "")).decode("utf-8", "replace")
        *whole, partial = text.split("\n")
        if partial:
            self._partial[digest] = partial
        # A progress bar rewrites its line with \r; only what it says last is of interest.
        found = [line.rstrip("\r").rsplit("\r", 1)[-1].rstrip() for line in whole]
        self.lines += found
        step = self.steps.get(digest)
        last = next((line for line in reversed(found) if line.strip()), "")
        if step and last:
            self.current = f"{_short(step.name)}: {last.strip()}"


def _short(name: str) -> str:
    """``[3/7]`` of a step's name, or the name where it has no number."""
    match = re.search(r"(\d+/\d+)\]", name)
    return f"step {match[1]}" if match else name
