"""Where fields lie in CPython's objects, for each minor version: bytes from an object's address, 64 bits, with a GIL.

Source: the structures in CPython's headers of these versions; a test holds each number against a running interpreter.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """One minor version.

    Attributes:
        text: of ``str``, its characters if they are ASCII; others begin ``text_wide`` bytes from the address.
        first_line, filename, names, lines, places, code: of a code object. ``names`` is where its (qualified) name
            lies, ``lines`` its table of lines, ``places`` how many local variables it has (None: not needed), ``code``
            its instructions.
        state: of a generator or coroutine, how far it is; None where its frame is an object of its own (3.10).
        frame: where its frame begins, as part of it; in 3.10 where its address stands.
        frame_code, instruction, depth, stack: of a frame.
        values: of a split dictionary's array of values, bytes before the first value.
    """

    text: int
    text_wide: int
    first_line: int
    filename: int
    names: int
    lines: int
    places: int | None
    code: int
    state: int | None
    frame: int
    frame_code: int
    instruction: int
    depth: int
    stack: int
    values: int = 0


LAYOUTS: dict[tuple[int, int], Layout] = {
    (3, 10): Layout(
        text=48, text_wide=72, first_line=40, filename=104, names=112, lines=120, places=None, code=48,
        state=None, frame=16, frame_code=32, instruction=96, depth=80, stack=64,
    ),
    (3, 11): Layout(
        text=48, text_wide=72, first_line=72, filename=112, names=128, lines=136, places=76, code=184,
        state=75, frame=80, frame_code=32, instruction=56, depth=64, stack=72,
    ),
    (3, 12): Layout(
        text=40, text_wide=56, first_line=68, filename=112, names=128, lines=136, places=72, code=192,
        state=67, frame=72, frame_code=0, instruction=56, depth=64, stack=72,
    ),
    (3, 13): Layout(
        text=40, text_wide=56, first_line=68, filename=112, names=128, lines=136, places=72, code=200,
        state=67, frame=72, frame_code=0, instruction=56, depth=64, stack=72, values=8,
    ),
}  # fmt: skip
