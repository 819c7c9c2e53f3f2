"""Every parser, by name."""

from __future__ import annotations

from tests.unit.fuzz import dumps, formats, kept, machine
from tests.unit.fuzz.parser import Parser

PARSERS: dict[str, Parser] = {
    parser.name: parser for room in (dumps, formats, kept, machine) for parser in room.PARSERS
}
