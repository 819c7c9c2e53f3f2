"""Finds the code of a file's line in a running process: which functions have it, and which frames are in it now."""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Iterator
from pathlib import PurePath


def same_file(filename: str, asked: str) -> bool:
    """Whether a code's file is the one asked for, by its whole path or by its last parts."""
    if filename == asked:
        return True
    parts, wanted = PurePath(filename).parts, PurePath(asked).parts
    return not PurePath(asked).is_absolute() and bool(wanted) and parts[-len(wanted) :] == wanted


def functions(asked: str) -> list[types.FunctionType]:
    """All functions whose code is in a file; those that came by pickle are in no module, hence the collector."""
    known: dict[str, bool] = {}
    found = []
    for thing in gc.get_objects():
        if type(thing) is not types.FunctionType:
            continue
        filename = thing.__code__.co_filename
        if filename not in known:
            known[filename] = same_file(filename, asked)
        if known[filename]:
            found.append(thing)
    return found


def frames(asked: str) -> list[types.FrameType]:
    """All frames of all threads, and those of suspended coroutines and generators, that are in a file."""
    found = []
    for top in sys._current_frames().values():
        frame: types.FrameType | None = top
        while frame is not None:
            if same_file(frame.f_code.co_filename, asked):
                found.append(frame)
            frame = frame.f_back
    for thing in gc.get_objects():
        if type(thing) in (types.CoroutineType, types.AsyncGeneratorType, types.GeneratorType):
            suspended = getattr(thing, "cr_frame", None) or getattr(thing, "gi_frame", None)
            suspended = suspended or getattr(thing, "ag_frame", None)
            if suspended is not None and same_file(suspended.f_code.co_filename, asked):
                found.append(suspended)
    return found


def inner(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code and all that is nested in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from inner(constant)


def has_line(code: types.CodeType, line: int) -> bool:
    """Whether an instruction of the code itself belongs to a line."""
    return any(number == line for _, _, number in code.co_lines())


def lines_near(codes: list[types.CodeType], line: int) -> list[int]:
    """The lines with code that are nearest to one without."""
    every = {number for code in codes for part in inner(code) for _, _, number in part.co_lines() if number}
    return sorted(sorted(every, key=lambda number: abs(number - line))[:3])
