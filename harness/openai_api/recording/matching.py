"""Which recorded answer a request gets: by what it asks, and among equal ones in their order.

Runs are apart from each other. Within a run the order of different requests doesn't count, so that calls that an agent
makes at once find their answers however they overtake each other; equal requests get their answers in the order in
which these were asked for. A recorded call is given once: one asked for more often than it was recorded is an error.
"""

from __future__ import annotations

import difflib
import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from harness.openai_api.recording.exchange import Exchange

# What stands in a recording where a secret was.
STAND_IN = "[redacted]"

# A nearest call is looked for among so many, and by so much of their text: a person waits for the answer.
_COMPARED, _COMPARED_TEXT = 64, 4000
_DIFFERENCES, _SHOWN = 6, 100

Clean = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Miss:
    """A request that was not recorded.

    Args:
        run: index of the run that asked.
        asked: method and path.
        why: what is wrong, in a sentence.
        nearest: number of the recorded call that is nearest; None where the run has none.
        differences: where the two differ, a line each.
    """

    run: int
    asked: str
    why: str
    nearest: int | None = None
    differences: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All of it, for an error's message."""
        lines = [f"{self.asked} of run {self.run} was not recorded: {self.why}"]
        return "\n".join([*lines, *(f"  {line}" for line in self.differences)])

    def as_dict(self) -> dict[str, Any]:
        """For a channel."""
        return asdict(self)

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Miss:
        """The reverse of ``as_dict``."""
        return cls(**{**value, "differences": tuple(value["differences"])})

    def body(self) -> dict[str, Any]:
        """The answer that says so, written as OpenAI's and Anthropic's SDKs read an error."""
        return {"type": "error", "error": {"message": self.text, "type": "drydock_not_recorded", "code": STATUS_MISS}}


# No SDK tries again after it.
STATUS_MISS = 400


class Matcher:
    """Gives the recorded calls of one run; usable from any thread.

    Args:
        run: index of the run.
        exchanges: its calls.
        clean: takes secrets out of a request, as was done with the recorded ones.
    """

    def __init__(self, run: int, exchanges: Iterable[Exchange], clean: Clean = lambda raw: raw) -> None:
        self._run = run
        self._clean = clean
        self._lock = threading.Lock()
        self._all = sorted(exchanges, key=lambda exchange: exchange.number)
        self._given: set[int] = set()
        # An SDK writes equal requests in equal bytes. So most are found by these alone, and nothing has to be read.
        self._by_bytes: dict[tuple[str, str, bytes], deque[Exchange]] = {}
        for exchange in self._all:
            asked = (exchange.method, exchange.path, exchange.request)
            self._by_bytes.setdefault(asked, deque()).append(exchange)
        self._read: dict[tuple[str, str, str], list[Exchange]] | None = None

    @property
    def left(self) -> int:
        """Recorded calls that nobody has asked for."""
        return len(self._all) - len(self._given)

    def claim(self, method: str, path: str, body: bytes) -> Exchange | Miss:
        """The answer for a request; it is taken, so the next equal request gets the next one."""
        with self._lock:
            same = self._by_bytes.get((method, path, body))
            while same:
                exchange = same.popleft()
                if exchange.number not in self._given:
                    self._given.add(exchange.number)
                    return exchange
            equal = self._equal(method, path, body)
            for exchange in equal:
                if exchange.number not in self._given:
                    self._given.add(exchange.number)
                    return exchange
            if not equal:
                return self._nearest(method, path, body)
            why = f"equal calls were recorded {len(equal)} times, and this is one more"
            return Miss(self._run, f"{method} {path}", why, equal[-1].number)

    def _equal(self, method: str, path: str, body: bytes) -> list[Exchange]:
        """The recorded calls that ask the same, given already or not, in order."""
        if self._read is None:
            self._read = {}
            for exchange in self._all:
                asked = (exchange.method, exchange.path, canonical(exchange.request))
                self._read.setdefault(asked, []).append(exchange)
        found = self._read.get((method, path, canonical(self._clean(body))))
        if found is not None:
            return found
        # Which secrets are known differs from machine to machine; what stands for one fits any text.
        for (recorded_method, recorded_path, recorded), exchanges in self._read.items():
            same_route = (recorded_method, recorded_path) == (method, path)
            if same_route and STAND_IN in recorded and _fits(exchanges[0].request, body):
                return exchanges
        return []

    def _nearest(self, method: str, path: str, body: bytes) -> Miss:
        asked = f"{method} {path}"
        if not self._all:
            return Miss(self._run, asked, "this run made no call when it was recorded")
        cleaned = self._clean(body)
        near = max(self._candidates(method, path), key=lambda exchange: _likeness(exchange, path, cleaned))
        lines = tuple(_differences(near, method, path, cleaned))
        state = ", given already" if near.number in self._given else ""
        return Miss(self._run, asked, f"nearest is call {near.number} of {len(self._all)}{state}", near.number, lines)

    def _candidates(self, method: str, path: str) -> list[Exchange]:
        left = [exchange for exchange in self._all if exchange.number not in self._given]
        same = [exchange for exchange in self._all if (exchange.method, exchange.path) == (method, path)]
        unused = [exchange for exchange in same if exchange.number not in self._given]
        return (unused or same or left or self._all)[:_COMPARED]


def canonical(body: bytes) -> str:
    """A body so that equal requests are equal texts: JSON with its keys in order, anything else as it is."""
    try:
        return json.dumps(json.loads(body), sort_keys=True, ensure_ascii=False)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "backslashreplace")


def _fits(recorded: bytes, asked: bytes) -> bool:
    try:
        return _value_fits(json.loads(recorded), json.loads(asked))
    except (ValueError, RecursionError):
        return _text_fits(recorded.decode("utf-8", "replace"), asked.decode("utf-8", "replace"))


def _value_fits(recorded: Any, asked: Any) -> bool:
    if isinstance(recorded, str) and isinstance(asked, str):
        return _text_fits(recorded, asked)
    if isinstance(recorded, list) and isinstance(asked, list):
        return len(recorded) == len(asked) and all(map(_value_fits, recorded, asked))
    if isinstance(recorded, dict) and isinstance(asked, dict):
        return recorded.keys() == asked.keys() and all(_value_fits(recorded[key], asked[key]) for key in recorded)
    return bool(recorded == asked)


def _text_fits(recorded: str, asked: str) -> bool:
    """Whether a text is the recorded one with something where secrets were taken out; linear in its length."""
    first, *rest = recorded.split(STAND_IN)
    if not rest:
        return recorded == asked
    if not asked.startswith(first):
        return False
    place = len(first)
    for part in rest[:-1]:
        place = asked.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return asked.endswith(rest[-1]) and len(asked) - len(rest[-1]) >= place


def _likeness(exchange: Exchange, path: str, body: bytes) -> float:
    one, other = canonical(exchange.request), canonical(body)
    # Most requests begin alike; what is asked last tells them apart.
    matcher = difflib.SequenceMatcher(None, one[-_COMPARED_TEXT:], other[-_COMPARED_TEXT:], autojunk=True)
    return (exchange.path == path) + matcher.quick_ratio()


def _differences(near: Exchange, method: str, path: str, body: bytes) -> Iterator[str]:
    for name, recorded, asked in (("method", near.method, method), ("path", near.path, path)):
        if recorded != asked:
            yield _harmless(f"{name}: recorded {recorded}, asked {asked}")
    try:
        pairs = list(_unequal(json.loads(near.request or b"null"), json.loads(body or b"null"), ""))
    except (ValueError, RecursionError):
        pairs = list(_unequal(near.request.decode("utf-8", "replace"), body.decode("utf-8", "replace"), "body"))
    yield from map(_harmless, pairs[:_DIFFERENCES])
    if len(pairs) > _DIFFERENCES:
        yield f"and {len(pairs) - _DIFFERENCES} more"


def _unequal(recorded: Any, asked: Any, place: str) -> Iterator[str]:
    if isinstance(recorded, dict) and isinstance(asked, dict):
        for key in [*recorded, *(key for key in asked if key not in recorded)]:
            below = f"{place}.{key}" if place else str(key)
            if key not in asked:
                yield f"{below}: recorded {_shown(recorded[key])}, not asked"
            elif key not in recorded:
                yield f"{below}: not recorded, asked {_shown(asked[key])}"
            else:
                yield from _unequal(recorded[key], asked[key], below)
    elif isinstance(recorded, list) and isinstance(asked, list):
        for number, (one, other) in enumerate(zip(recorded, asked, strict=False)):
            yield from _unequal(one, other, f"{place}[{number}]")
        if len(recorded) != len(asked):
            yield f"{place}: recorded {len(recorded)} items, asked {len(asked)}"
    elif not _value_fits(recorded, asked):
        if isinstance(recorded, str) and isinstance(asked, str):
            start = _parting(recorded, asked)
            yield f"{place}: recorded {_shown(recorded, start)}, asked {_shown(asked, start)}"
        else:
            yield f"{place}: recorded {_shown(recorded)}, asked {_shown(asked)}"


def _parting(one: str, other: str) -> int:
    """Where two texts part, and a little before."""
    same = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return max(same - 20, 0) if max(len(one), len(other)) > _SHOWN else 0


def _harmless(text: str) -> str:
    """A text of one line, with what a terminal obeys, or what turns the direction of writing, written out."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode("ascii") for char in text
    )


def _shown(value: Any, start: int = 0) -> str:
    text = value[start : start + _SHOWN] if isinstance(value, str) else json.dumps(value, ensure_ascii=False)[:_SHOWN]
    if not isinstance(value, str):
        return text
    return f"{'…' if start else ''}“{text}”{'…' if len(value) > start + _SHOWN else ''}"
