"""The data: what the model is asked, one JSON object a line, in the forms that trainers' data sets have."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.compare import images
from harness.compare.model import Conversation
from harness.errors import DataNotFound, DataUnreadable, UsageError
from harness.places import shown

BUILT_IN = Path(__file__).parent / "conversations.jsonl"


def find(given: str, folders: tuple[Path, ...]) -> Path:
    """The data's file; the built-in one where none is given.

    Raises:
        DataNotFound: there is none.
    """
    if not given:
        return BUILT_IN
    wanted = Path(given).expanduser()
    places = [wanted] if wanted.is_absolute() else [folder / wanted for folder in folders]
    for place in places:
        if place.is_file():
            return place.resolve()
    raise DataNotFound(
        f"there is no data {given}",
        consequence="" if wanted.is_absolute() else f"Looked in {', '.join(map(shown, folders))}.",
        mend="DATA=FILE.jsonl   # one JSON object a line, with messages, prompt or prompt_ids; without: a built-in set",
    )


def read(path: Path) -> Iterator[Conversation]:
    """The conversations, read as they are asked for.

    Raises:
        DataUnreadable: the file can't be read, or isn't UTF-8.
        UsageError: a line is no conversation; names it.
    """
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, text in enumerate(file, start=1):
                if text.strip():
                    yield _conversation(path, number, text)
    except OSError as error:
        raise DataUnreadable(
            f"{path} can't be read: {error.strerror}", consequence="Nothing was compared.",
            mend=f"ls -l {shlex.quote(str(path))}   # may you read it?",
        ) from None  # fmt: skip
    except UnicodeDecodeError:
        raise DataUnreadable(
            f"{path} isn't UTF-8",
            consequence="Nothing was compared.",
            mend=f"iconv -f ENCODING -t UTF-8 {shlex.quote(str(path))} > OTHER.jsonl   # from what it is in",
        ) from None


def _conversation(path: Path, number: int, text: str) -> Conversation:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _bad(path, number, f"no JSON ({error})") from None
    if not isinstance(row, dict):
        raise _bad(path, number, "not an object")
    for name in ("video", "videos", "audio", "audios"):
        if row.get(name):
            raise _bad(path, number, f"it has {name}: text and images can be compared; leave such lines out")
    output, logprobs = row.get("output_ids") or (), row.get("logprobs") or ()
    if not isinstance(output, (list, tuple)) or not isinstance(logprobs, (list, tuple)):
        raise _bad(path, number, "output_ids and logprobs have to be lists")
    if len(output) != len(logprobs):
        raise _bad(path, number, f"{len(output)} output_ids and {len(logprobs)} logprobs")
    if _are_ids(row.get("prompt_ids")):
        if output and not _are_ids(output):
            raise _bad(path, number, "output_ids has something else than token ids")
        if not all(value is None or type(value) in (int, float) for value in logprobs):
            raise _bad(path, number, "logprobs has something else than numbers")
        known = [math.nan if value is None else float(value) for value in logprobs]
        return Conversation(number, ids=row["prompt_ids"], output=output, logprobs=known, row=row)
    return _said(path, number, row)


def _said(path: Path, number: int, row: Mapping[str, Any]) -> Conversation:
    """What stands there as a text or as messages; verl's data sets call a list of messages "prompt"."""
    for name in ("messages", "prompt", "conversation"):
        value = row.get(name)
        if isinstance(value, str) and value:
            return Conversation(number, text=value, row=row)
        if isinstance(value, list) and value:
            return _chat(path, number, value, row)
        if value:
            raise _bad(path, number, f"{name} is neither a text nor a list of messages")
    raise _bad(
        path, number, f"has none of messages, prompt and prompt_ids, but {', '.join(list(row)[:6]) or 'nothing'}"
    )


def _chat(path: Path, number: int, messages: list[Any], row: Mapping[str, Any]) -> Conversation:
    if not all(isinstance(message, dict) and isinstance(message.get("role"), str) for message in messages):
        raise _bad(path, number, "a message without a role")
    tools = row.get("tools") or ()
    if not isinstance(tools, (list, tuple)) or not all(isinstance(tool, dict) for tool in tools):
        raise _bad(path, number, "tools is no list of objects")
    if not all(_calls_functions(message.get("tool_calls") or ()) for message in messages):
        raise _bad(path, number, "tool_calls is no list of objects, each with a function that has a name")
    kept = list(messages)
    # What the model is to say is sampled, so an answer at the end is left out.
    while kept and kept[-1]["role"] == "assistant":
        kept.pop()
    if not kept:
        raise _bad(path, number, "nothing but answers of the assistant")
    try:
        kept = images.found(row, kept, path.parent)
    except images.Unusable as error:
        raise _bad(path, number, str(error)) from None
    return Conversation(number, messages=kept, tools=tools, row=row, images=images.count(kept))


def _calls_functions(calls: Any) -> bool:
    return isinstance(calls, (list, tuple)) and all(
        isinstance(call, dict)
        and isinstance(call.get("function"), dict)
        and isinstance(call["function"].get("name"), str)
        for call in calls
    )


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(token) is int and token >= 0 for token in value)


def _bad(path: Path, number: int, reason: str) -> UsageError:
    return UsageError(
        f"{path.name}, line {number}: {reason}",
        consequence="Nothing was compared.",
        mend='one JSON object a line: {"messages": [{"role": "user", "content": "…"}]}, {"prompt": "…"} or prompt_ids',
    )
