"""What the drivers of all frameworks share: two pipes to whoever asked, and a few things to say in them.

Only the standard library is imported: this runs in the framework's own interpreter.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import threading
import time
from typing import Any


class Channel:
    """The two pipes to whoever asked.

    Args:
        events, control: descriptors, to write and to read.
        folder: of whoever asked; it goes where they have gone without a word.
    """

    def __init__(self, events: int, control: int, folder: str) -> None:
        self._events, self._lock, self._folder = events, threading.Lock(), folder
        self._control = os.fdopen(control, "r", encoding="utf-8")
        self._answers: list[dict[str, Any]] = []
        self._news = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    def say(self, event: str, **fields: Any) -> None:
        line = json.dumps({"event": event, "time": time.time(), **fields}, default=str).encode() + b"\n"
        with self._lock:
            while line:
                line = line[os.write(self._events, line) :]

    def ask(self, event: str, **fields: Any) -> dict[str, Any]:
        """Say something and wait for the answer to it."""
        self.say(event, **fields)
        with self._news:
            while not self._answers:
                self._news.wait()
            return self._answers.pop(0)

    def _listen(self) -> None:
        for line in self._control:
            with self._news:
                self._answers.append(json.loads(line))
                self._news.notify_all()
        # Nobody is there any more to whom anything could be said. AReaL's workers are of our process group; they end
        # first, for they write into the folder.
        for pid in _others():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)
        os.killpg(os.getpgrp(), signal.SIGKILL)


def _others() -> list[int]:
    """All of this process group but ourselves."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if int(name) != os.getpid() and os.getpgid(int(name)) == os.getpgrp():
                found.append(int(name))
    return found


def numbers(value: Any) -> Any:
    """Numbers as JSON has them: it knows neither infinity nor NaN."""
    if isinstance(value, list):
        return [numbers(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def template_of(tokenizer: Any) -> dict[str, Any]:
    """Whether a conversation's tokens stay as they are when turns are added to it, by this tokenizer's template."""
    if tokenizer is None or not getattr(tokenizer, "chat_template", None):
        return {"there": False}
    turns = [
        {"role": "user", "content": "What is 2+2?"},
        {"role": "assistant", "content": "It is 4."},
        {"role": "user", "content": "And 3+3?"},
    ]
    first = _ids(tokenizer, turns[:1], True)
    answered = _ids(tokenizer, turns[:2], False)
    later = _ids(tokenizer, turns, True)
    return {
        "there": True,
        "prompt_kept": later[: len(first)] == first,
        "answer_kept": later[: len(answered)] == answered,
        "first": tokenizer.decode(first),
        "later": tokenizer.decode(later),
    }


def _ids(tokenizer: Any, turns: list[dict[str, str]], prompt: bool) -> list[int]:
    text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=prompt)
    return list(tokenizer.encode(text, add_special_tokens=False))
