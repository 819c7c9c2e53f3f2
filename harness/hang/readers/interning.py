"""Makes equal stacks, threads and thread lists one object each.

Dumps of a big job are mostly the same bytes again and again. What has been parsed once is found again by its raw text,
so that the second rank in a group costs a look-up instead of a parse.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from harness.hang.model import Frame, Stack, Thread, Threads

# What is kept of a deep stack: where it is, and how it began.
INNERMOST, OUTERMOST = 160, 60
# So many texts that a process's first, second, … thread had are tried before the table is asked.
_TRIED = 16


class Interner:
    """One table for one input; not for use by two threads at once."""

    def __init__(self) -> None:
        self._by_raw: dict[Hashable, Stack] = {}
        self._recent: dict[int, list[tuple[bytes, Stack]]] = {}
        self._stacks: dict[tuple[Frame, ...], Stack] = {}
        self._threads: dict[tuple[str, Stack, bool | None, bool], Thread] = {}
        self._lists: dict[Threads, Threads] = {}

    def stack(self, frames: Sequence[Frame]) -> Stack:
        """The one stack with these frames; of an endless recursion the middle is left out."""
        key = tuple(frames)
        if len(key) > INNERMOST + OUTERMOST:
            left_out = Frame(f"… {len(key) - INNERMOST - OUTERMOST} calls left out", "…")
            key = (*key[:INNERMOST], left_out, *key[-OUTERMOST:])
        stack = self._stacks.get(key)
        if stack is None:
            stack = self._stacks[key] = Stack(key)
        return stack

    def known(self, data: bytes, start: int, thread: int) -> tuple[Stack | None, int]:
        """The stack that some thread of this number had in the same words, and where these end in ``data``.

        Args:
            thread: its number in the process, from 0.

        Comparing bytes in place takes a tenth of what cutting them out and hashing them does.
        """
        recent = self._recent.get(thread, [])
        for number, (raw, stack) in enumerate(recent):
            if data.startswith(raw, start):
                if number:
                    recent.insert(0, recent.pop(number))
                return stack, start + len(raw)
        return None, start

    def by_raw(self, raw: Hashable, parse: Callable[[], Sequence[Frame]]) -> Stack:
        """The stack that this text stands for; parsed only when the text is new."""
        stack = self._by_raw.get(raw)
        if stack is None:
            stack = self._by_raw[raw] = self.stack(parse())
        return stack

    def keep_known(self, raw: bytes, stack: Stack, thread: int) -> None:
        """Have ``known`` find this text from now on."""
        recent = self._recent.setdefault(thread, [])
        recent.insert(0, (raw, stack))
        del recent[_TRIED:]

    def thread(self, name: str, stack: Stack, active: bool | None, holds_gil: bool) -> Thread:
        """The one thread that looks like this."""
        key = (name, stack, active, holds_gil)
        thread = self._threads.get(key)
        if thread is None:
            thread = self._threads[key] = Thread(*key)
        return thread

    def threads(self, threads: Sequence[Thread]) -> Threads:
        """The one list of these threads."""
        key = tuple(threads)
        return self._lists.setdefault(key, key)
