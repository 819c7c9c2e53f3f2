"""What goes wrong and can be mended by a person."""

from __future__ import annotations

from typing import Any


class Told(Exception):
    """Something that a person can mend.

    Args:
        kind: ``memory``, ``weights``, ``template``, ``refused`` (one conversation), ``device`` or ``failed``.
    """

    def __init__(self, kind: str, what: str, **facts: Any) -> None:
        super().__init__(what)
        self.kind = kind
        self.facts = facts


def of_memory(error: BaseException) -> bool:
    """Whether it says that memory ran out, in the words of torch's allocators or of the system."""
    said = str(error).lower()
    return isinstance(error, MemoryError) or any(
        words in said for words in ("out of memory", "can't allocate memory", "cannot allocate memory")
    )
