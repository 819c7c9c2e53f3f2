"""Reads Flight Recorder dumps, JSON or pickle, of NCCL and of gloo.

PyTorch's own analyzer fails on gloo's (its status table has other keys than its entries); this reader takes both.
"""

from __future__ import annotations

import io
import json
import pickle
import re
from typing import Any

from harness.hang.model import Recorded, Recording
from harness.hang.readers.digits import whole
from harness.hang.readers.room import at_most_more

_MOST_ENTRIES = 20_000
# A dump has megabytes. Twelve bytes of a pickle can ask for a table of 32 GiB.
_MOST_ROOM = 2 * 2**30


def looks_like(head: bytes) -> bool:
    """Whether a file that begins like this may be a recorder's dump."""
    if head[:1] == b"\x80":
        return b"entries" in head or b"pg_config" in head or b"version" in head
    return head.lstrip()[:1] == b"{" and (
        b'"pg_status"' in head or b'"collective_seq_id"' in head or b'"comm_lib_version"' in head
    )


def rank_in(name: str) -> int | None:
    """The rank in a file name: PyTorch appends it to a prefix that people choose (``nccl_trace_rank_3``)."""
    match = re.search(r"(\d+)(?:\.(?:json|pickle|pkl))?$", name)
    return whole(match[1]) if match else None


def read(data: bytes, rank: int, source: str = "") -> Recording:
    """Read one rank's dump.

    Raises:
        ValueError: this isn't one.
    """
    content = _unpickled(data) if data[:1] == b"\x80" else json.loads(data.decode("utf-8", "replace"))
    if not isinstance(content, dict) or not isinstance(content.get("entries"), list):
        raise ValueError("no list of entries in it")
    recording = Recording(rank, source=source)
    status = content.get("pg_status")
    for group, numbers in status.items() if isinstance(status, dict) else ():
        if isinstance(numbers, dict):
            recording.enqueued[str(group)] = _integer(numbers.get("last_enqueued_collective"), -1)
            recording.completed[str(group)] = _integer(numbers.get("last_completed_collective"), -1)
    for entry in content["entries"][-_MOST_ENTRIES:]:
        if isinstance(entry, dict):
            recording.operations.append(_recorded(entry, recording))
    config = content.get("pg_config")
    for name, entry in config.items() if isinstance(config, dict) else ():
        if isinstance(entry, dict):
            # gloo writes one entry under the empty name, for its default group, whose entries say "0".
            key = str(name) or "0"
            ranks = entry.get("ranks")
            listed = re.findall(r"\d+", ranks) if isinstance(ranks, str) else ranks if isinstance(ranks, list) else []
            recording.members[key] = [_integer(number, -1) for number in listed[:1_000_000]]
    return recording


def _recorded(entry: dict[str, Any], recording: Recording) -> Recorded:
    group = entry.get("process_group")
    name = str(group[0]) if isinstance(group, (list, tuple)) and group else str(entry.get("pg_id", "0"))
    sequence = _integer(entry.get("collective_seq_id"), 0)
    point_to_point = entry.get("is_p2p") is True
    state = str(entry.get("state", ""))
    # gloo's entries say "scheduled" for ever; its group's status knows better.
    done = (
        state == "completed"
        or entry.get("retired") is True
        or (not point_to_point and 0 < sequence <= recording.completed.get(name, -1))
    )
    return Recorded(
        group=name,
        sequence=_integer(entry.get("p2p_seq_id"), 0) if point_to_point else sequence,
        operation=str(entry.get("profiling_name", "")).rpartition(":")[2],
        sizes=_sizes(entry.get("input_sizes")) + " → " + _sizes(entry.get("output_sizes")),
        dtypes=_names(entry.get("input_dtypes")) + " → " + _names(entry.get("output_dtypes")),
        point_to_point=point_to_point,
        completed=done,
    )


def _sizes(value: Any) -> str:
    return json.dumps(value, default=str)[:400] if isinstance(value, (list, tuple)) else ""


def _names(value: Any) -> str:
    return ",".join(str(name)[:40] for name in value[:64]) if isinstance(value, (list, tuple)) else ""


def _integer(value: Any, otherwise: int) -> int:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return otherwise


class _PlainUnpickler(pickle.Unpickler):
    """Takes containers, text and numbers only: a dump comes from anywhere, and a pickle can call any function."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}, which no recorder writes")


def _unpickled(data: bytes) -> Any:
    try:
        with at_most_more(_MOST_ROOM):
            content = _PlainUnpickler(io.BytesIO(data)).load()
    except Exception as error:  # noqa: BLE001  # a broken pickle raises whatever its damage leads to
        raise ValueError(f"not a plain pickle: {error or type(error).__name__}") from None
    if not _fits(content, len(data)):
        raise ValueError("not a plain pickle: it unfolds to far more than it holds")
    return content


def _fits(content: Any, most: int) -> bool:
    """Whether all that is in it, what is in it twice counted twice, is no more than its bytes can stand for.

    A few lists that hold each other ten times over are a hundred bytes, and have no end when they are written out.
    """
    waiting = [content]
    while waiting and most >= 0:
        one = waiting.pop()
        inner = one.values() if isinstance(one, dict) else one if isinstance(one, (list, tuple, set, frozenset)) else ()
        most -= 1 + len(inner)
        waiting.extend(inner)
    return most >= 0
