"""A recorded call without secrets; where there are none, its bytes stay as they were."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from harness.openai_api.recording.exchange import Exchange

Path = tuple[Any, ...]


class Cleaner(Protocol):
    """Takes secrets out; ``harness.runs.Redactor`` is one."""

    def text(self, text: str) -> str: ...

    def data(self, value: Any) -> Any: ...


def cleaned(exchange: Exchange, cleaner: Cleaner) -> Exchange:
    """The exchange without secrets."""
    blocks = _stream(exchange.blocks, cleaner) if exchange.streamed else [_body(b, cleaner) for b in exchange.blocks]
    return dataclasses.replace(
        exchange,
        path=cleaner.text(exchange.path),
        request=clean_request(exchange.request, cleaner),
        headers=tuple((name, cleaner.text(value)) for name, value in exchange.headers),
        blocks=tuple(blocks),
        why=cleaner.text(exchange.why),
    )


def clean_request(raw: bytes, cleaner: Cleaner) -> bytes:
    """A request's body without secrets, also those that only the name of their field tells."""
    return _json(raw, cleaner.data, cleaner)


def _body(raw: bytes, cleaner: Cleaner) -> bytes:
    # Not by the name of a field: log-probs have one called `token`, whose text a reward may be made from.
    return _json(raw, lambda value: _leaves(value, cleaner.text), cleaner)


def _json(raw: bytes, clean: Callable[[Any], Any], cleaner: Cleaner) -> bytes:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return _plain(raw, cleaner)
    changed = clean(value)
    return raw if changed == value else json.dumps(changed, ensure_ascii=False).encode("utf-8", "replace")


def _plain(raw: bytes, cleaner: Cleaner) -> bytes:
    text = raw.decode("utf-8", "surrogateescape")
    changed = cleaner.text(text)
    return raw if changed == text else changed.encode("utf-8", "surrogateescape")


def _leaves(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_leaves(item, clean) for item in value]
    if isinstance(value, dict):
        return {key: _leaves(item, clean) for key, item in value.items()}
    return value


def _stream(blocks: Sequence[bytes], cleaner: Cleaner) -> list[bytes]:
    """A stream's events without secrets, also those that no single event holds whole.

    A model that repeats a key does so in several tokens. So what each place of the events says is put together, and
    where that holds a secret, all of it is said, without the secret, by the first event that has the place.
    """
    lines = [_Event(block) for block in blocks]
    said: dict[Path, list[_Event]] = {}
    for event in lines:
        event.value = _leaves(event.value, cleaner.text)
        for path, _ in _texts(event.value):
            said.setdefault(path, []).append(event)
    for path, events in said.items():
        whole = "".join(_get(event.value, path) for event in events)
        changed = cleaner.text(whole)
        if changed != whole:
            for number, event in enumerate(events):
                event.value = _set(event.value, path, "" if number else changed)
    return [event.block(cleaner) for event in lines]


class _Event:
    """One event of a stream; ``value`` is what its data says, None where that is no JSON."""

    def __init__(self, block: bytes) -> None:
        self._block = block
        self._before, mark, rest = block.partition(b"data:")
        self._data, self._after = rest.rstrip(b"\r\n"), rest[len(rest.rstrip(b"\r\n")) :]
        self._original: Any = None
        try:
            self._original = json.loads(self._data) if mark else None
        except (ValueError, RecursionError):
            pass
        self.value = self._original

    def block(self, cleaner: Cleaner) -> bytes:
        if self._original is None:
            return _plain(self._block, cleaner)
        if self.value == self._original:
            return self._block
        data = json.dumps(self.value, ensure_ascii=False).encode("utf-8", "replace")
        return _plain(self._before, cleaner) + b"data: " + data + self._after


def _texts(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _texts(item, (*path, number))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, (*path, key))


def _get(value: Any, path: Path) -> str:
    for step in path:
        value = value[step]
    return str(value)


def _set(value: Any, path: Path, text: str) -> Any:
    if not path:
        return text
    copy = list(value) if isinstance(value, list) else dict(value)
    copy[path[0]] = _set(value[path[0]], path[1:], text)
    return copy
