"""What goes wrong and can be mended by a person."""

from __future__ import annotations

from typing import Any


class Told(Exception):
    """Something that a person can mend.

    Args:
        kind: ``memory``, ``weights``, ``template``, ``device`` or ``failed``.
    """

    def __init__(self, kind: str, what: str, **facts: Any) -> None:
        super().__init__(what)
        self.kind = kind
        self.facts = facts
