"""The trainer's side: a process on an interpreter with torch and transformers, asked over its pipes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.errors import LibraryMissing, ReferenceTooBig, ReferenceUnusable

DRIVER = Path(__file__).parent / "driver"
# A line holds a sample's tokens and log-probs, many times over for views.
_LINE = 1 << 28
# The program is a package of its own there; nothing else of ours is on that interpreter's path.
_START = """
import importlib.util, runpy, sys
folder, name = sys.argv[1], "drydock_reference"
spec = importlib.util.spec_from_file_location(name, folder + "/__init__.py", submodule_search_locations=[folder])
sys.modules[name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[name])
runpy.run_module(name, run_name="__main__")
"""


class Unrenderable(Exception):
    """The chat template or the tokenizer refuses a conversation.

    Args:
        at: the place among those that were to be rendered.
    """

    def __init__(self, what: str, at: int) -> None:
        super().__init__(what)
        self.at = at


class Reference:
    """The process; an asynchronous context manager that ends it.

    Args:
        python: its interpreter.
    """

    def __init__(self, python: str, environment: dict[str, str] | None = None) -> None:
        self.python = python
        self._environment = environment or {}
        self._process: asyncio.subprocess.Process | None = None
        self._number = 0
        self._said: list[str] = []
        self._listener: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        # Bytes that scoring took beyond the weights, at most.
        self.over_model = 0

    async def __aenter__(self) -> Reference:
        try:
            self._process = await asyncio.create_subprocess_exec(
                self.python, "-u", "-c", _START, str(DRIVER),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                env={**os.environ, **self._environment}, limit=_LINE,
            )  # fmt: skip
        except OSError as error:
            raise ReferenceUnusable(f"{self.python} can't be started: {error.strerror}") from None
        self._listener = asyncio.ensure_future(self._listen())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def end(self) -> None:
        """End the process as soon as it has answered what it was asked."""
        async with self._turn:
            await self._close()

    async def _close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            # A forward pass under way would delay it; there is nothing to be put in order there.
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await process.wait()
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self._process is not None
        return self._process.pid

    async def load(self, **asked: Any) -> dict[str, Any]:
        """Load tokenizer and weights; returns what they are, or nothing where ``beside`` is asked and there is no room.

        Raises:
            ReferenceTooBig: they don't fit into memory.
            ReferenceUnusable: they can't be read.
            LibraryMissing: the interpreter lacks a package.
        """
        facts: dict[str, Any] = (await self._one("load", **asked))["facts"]
        return facts

    async def open(self, path: str, *, alone: bool = False) -> dict[str, Any]:
        """Load the tokenizer; returns what it is.

        Args:
            alone: this process will load nothing else, so it does without torch.

        Raises:
            ReferenceUnusable, LibraryMissing: it can't be read.
        """
        facts: dict[str, Any] = (await self._one("open", path=path, alone=alone))["facts"]
        return facts

    async def render(self, conversations: Sequence[dict[str, Any]]) -> list[list[int]]:
        """Conversations as token ids.

        Raises:
            Unrenderable: one of them can't be.
            ReferenceUnusable: none can.
        """
        ids: list[list[int]] = (await self._one("render", conversations=list(conversations)))["ids"]
        return ids

    async def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Texts as token ids."""
        ids: list[list[int]] = (await self._one("encode", texts=list(texts)))["ids"]
        return ids

    async def pieces(self, ids: Sequence[Sequence[int]]) -> tuple[list[list[str]], list[str]]:
        """Each token as text, and all of a list together."""
        found = await self._one("pieces", ids=[list(one) for one in ids])
        return found["pieces"], found["texts"]

    async def texts(self, ids: Sequence[Sequence[int]]) -> tuple[list[str], list[str]]:
        """Token ids as texts: whole, and without special tokens."""
        found = await self._one("texts", ids=[list(one) for one in ids])
        return found["whole"], found["texts"]

    async def peak(self) -> int:
        """Bytes that the process had at most since what it loaded was there; 0 where the system doesn't say."""
        return int((await self._one("memory"))["peak"])

    async def generate(
        self, samples: Sequence[dict[str, Any]], sampling: dict[str, Any], dtype: str
    ) -> AsyncIterator[dict[str, Any]]:
        """Outputs of the model itself, as they are done; see ``driver.generating.generate``."""
        async with self._turn:
            async for answer in self._ask("generate", samples=list(samples), sampling=sampling, dtype=dtype):
                if "done" in answer:
                    return
                yield answer

    async def score(
        self,
        samples: Sequence[dict[str, Any]],
        views: Sequence[dict[str, Any]] | None = None,
        change: dict[str, Any] | None = None,
        *,
        dtype: str,
    ) -> AsyncIterator[dict[str, Any]]:
        """Log-probs of each sample's output, as they are done; see ``driver.scoring.score``.

        Args:
            dtype: of the weights; they have to be loaded.
        """
        async with self._turn:
            async for answer in self._ask(
                "score", samples=list(samples), views=list(views or [{}]), change=change, dtype=dtype
            ):
                if "done" in answer:
                    self.over_model = max(self.over_model, answer.get("over_model") or 0)
                    return
                yield answer

    async def _one(self, do: str, **asked: Any) -> dict[str, Any]:
        async with self._turn:
            async for answer in self._ask(do, **asked):
                return answer
        raise ReferenceUnusable("the reference said nothing")

    async def _ask(self, do: str, **asked: Any) -> AsyncIterator[dict[str, Any]]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        self._number += 1
        number = self._number
        with contextlib.suppress(ConnectionError):
            process.stdin.write(json.dumps({"re": number, "do": do, **asked}).encode() + b"\n")
            await process.stdin.drain()
        while True:
            line = await process.stdout.readline()
            if not line:
                raise self._ended(await process.wait(), asked)
            try:
                answer = json.loads(line)
                other = answer.get("re") != number
            except (ValueError, AttributeError):
                raise self._no_python(line) from None
            if other:
                continue  # to a question that was given up
            if "error" in answer:
                raise self._error(answer, asked)
            yield answer

    async def _listen(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        while line := await self._process.stderr.readline():
            self._said = [*self._said[-40:], line.decode("utf-8", "replace").rstrip()]

    def _no_python(self, said: bytes) -> Exception:
        """Answers come on a pipe of their own, so what isn't one comes from something else than our program."""
        return ReferenceUnusable(
            f"{self.python} is no Python: it answers {said[:80].decode('utf-8', 'replace').strip()!r}",
            mend="COMPARE_PYTHON=PYTHON   # an interpreter with torch and transformers; without: one is made",
        )

    def _ended(self, code: int, asked: dict[str, Any]) -> Exception:
        if code == -9:
            return _too_big("the reference was killed, most likely because memory ran out", asked)
        last = next((line for line in reversed(self._said) if line.strip()), "")
        return ReferenceUnusable(
            f"the reference, a process of {self.python}, ended with exit code {code}{': ' if last else ''}{last[:300]}"
        )

    def _error(self, answer: dict[str, Any], asked: dict[str, Any]) -> Exception:
        what = str(answer.get("what", ""))
        if answer["error"] == "memory":
            return _too_big(what, asked, answer)
        if answer["error"] == "import":
            return LibraryMissing(
                f"{self.python} lacks a package: {what}",
                consequence="The trainer's side can't be computed.",
                mend="COMPARE_PYTHON=PYTHON   # an interpreter with torch and transformers; without: one is made",
            )
        if type(answer.get("at")) is int:
            return Unrenderable(what, answer["at"])
        if answer["error"] == "device":
            return ReferenceUnusable(what, mend="DEVICE=cpu   # or COMPARE_PYTHON=PYTHON, whose torch has the device")
        return ReferenceUnusable(what)


def _too_big(what: str, asked: dict[str, Any], facts: dict[str, Any] | None = None) -> ReferenceTooBig:
    facts = facts or {}
    steps = []
    if facts.get("half") and asked.get("dtype") != "bfloat16":
        steps.append(f"DTYPE=bfloat16   # takes some {facts['half'] / 1e9:.1f} GB")
    if facts.get("needed"):
        steps.append(f"DEVICE=cuda:1 or another machine with {facts['needed'] * 1.1 / 1e9:.0f} GB free")
    if "samples" in asked:  # the weights are there
        steps.append("BATCH_TOKENS=256   # fewer tokens of a forward pass; without: 1024")
    steps.append("AGAINST=URL   # compares with a second server instead of transformers")
    free = f"{facts['free'] / 1e9:.1f} GB are free." if facts.get("free") else ""
    return ReferenceTooBig(
        what, consequence=f"The trainer's side can't be computed here. {free}".strip(), mend="\n".join(steps)
    )
