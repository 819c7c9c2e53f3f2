"""One process that the terminal debugger holds: where it stands, which frame is looked at, what its values are."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Sequence
from pathlib import Path, PurePath

from harness.breakpoints.inside import values
from harness.breakpoints.inside.codes import inner
from harness.dap.model import Breakpoint, Frame, Stop
from harness.dap.session import Session
from harness.errors import DebuggerRefused, UsageError

EVALUATE_SECONDS = 20.0


class Held:
    """A session, with the frame that is looked at.

    Attributes:
        number: as in `make breakpoints`.
    """

    def __init__(self, number: int, name: str, session: Session) -> None:
        self.number, self.name, self.session = number, name, session
        self.thread = 0
        self.frames: list[Frame] = []
        self.index = 0
        self._helped = False

    # -- where --------------------------------------------------------------------------------------------------------

    @property
    def stopped(self) -> bool:
        """Whether a thread of it stands still for us."""
        return bool(self.session.stopped)

    def look(self, stop: Stop | None = None) -> None:
        """Take the frames of a stopped thread, the innermost one first."""
        stop = stop or next(iter(self.session.stopped.values()), None)
        if stop is None:
            raise UsageError(f"Session {self.number} runs.", mend="pause, or wait for its next breakpoint")
        self.thread = stop.thread
        self.frames = [frame for frame in self.session.stack(stop.thread) if frame.file] or self.frames
        self.index = next((i for i, frame in enumerate(self.frames) if not _is_rays(frame.file)), 0)

    @property
    def frame(self) -> Frame:
        """The frame that is looked at."""
        if not self.stopped or not self.frames:
            raise UsageError(f"Session {self.number} runs.", mend="pause, or wait for its next breakpoint")
        return self.frames[self.index]

    def move(self, steps: int) -> None:
        """Look at an outer (positive) or an inner frame."""
        self.index = min(max(self.index + steps, 0), len(self.frames) - 1)

    def go(self, how: str) -> None:
        """``continue``, ``next``, ``stepIn`` or ``stepOut``."""
        thread = self.thread or next(iter(self.session.stopped), 0)
        self.frames = []
        self.session.resume(thread, how)

    # -- what ---------------------------------------------------------------------------------------------------------

    def value(self, expression: str, how: str = "show") -> str:
        """An expression's value in the frame, as text; an exception reads ``!Type: message``."""
        called = f"evaluate({expression!r}, globals(), locals(), {how!r})"
        return str(ast.literal_eval(self._helper(called)))

    def locals(self) -> list[tuple[str, str]]:
        """The local variables, a line each; arrays by shape."""
        found: list[tuple[str, str]] = ast.literal_eval(self._helper("table(locals())"))
        return found

    def execute(self, statement: str) -> str:
        """Run a statement in the frame."""
        return self.session.evaluate(statement, self.frame.id, timeout=EVALUATE_SECONDS)

    def _helper(self, called: str) -> str:
        frame = self.frame.id
        if not self._helped:
            source = inspect.getsource(values)
            body = (
                "import sys, types; _m = types.ModuleType('drydock_values'); sys.modules['drydock_values'] = _m; "
                f"exec({source!r}, _m.__dict__)"
            )
            self.session.evaluate(f"exec({body!r}, {{}})", frame, timeout=EVALUATE_SECONDS)
            self._helped = True
        # As for the clipboard, because otherwise debugpy cuts a value after a thousand characters.
        expression = f"__import__('drydock_values').{called}"
        return self.session.evaluate(expression, frame, timeout=EVALUATE_SECONDS, context="clipboard")

    # -- source and breakpoints ---------------------------------------------------------------------------------------

    def source(self, file: str) -> list[str]:
        """The lines of a file, from here or, where it isn't here, from the process."""
        lines = linecache.getlines(file)
        if not lines and self.stopped:
            expression = f"''.join(__import__('linecache').getlines({file!r}))"
            text = self.session.evaluate(expression, self.frame.id, context="clipboard")
            lines = str(ast.literal_eval(text)).splitlines(keepends=True)
        return lines

    def file_for(self, name: str) -> str:
        """The file that a person means by its last parts: one of the stack's, else one that the process has loaded."""
        if not name:
            return self.frame.file
        wanted = PurePath(name).parts
        for frame in self.frames:
            if PurePath(frame.file).parts[-len(wanted) :] == wanted:
                return frame.file
        if self.stopped:
            modules = "[getattr(m, '__file__', None) for m in list(__import__('sys').modules.values())]"
            loaded = ast.literal_eval(self.session.evaluate(modules, self.frame.id, context="clipboard"))
            for file in loaded:
                if isinstance(file, str) and PurePath(file).parts[-len(wanted) :] == wanted:
                    return file
        # What isn't loaded yet may be there all the same: the workspace is one folder in all nodes.
        if Path(name).is_file():
            return str(Path(name).absolute())
        if PurePath(name).is_absolute():
            return name
        if not self.stopped and (here := Path(name).absolute()).is_file():
            return str(here)
        if not self.stopped:
            raise UsageError(
                f"{name} is looked for in a process that stands, and this one runs.",
                mend="break /whole/path/" + name + ":LINE   # or pause first",
            )
        raise UsageError(
            f"The process has loaded no file {name}.",
            mend=f"break /whole/path/{name}:LINE   # or step to where it is imported",
        )

    def add(self, point: Breakpoint) -> str:
        """Set a breakpoint; says what is odd about it, "" where nothing is."""
        odd = _odd(self.source(point.file), point)
        if odd.startswith("no code"):
            raise UsageError(f"{point.file}:{point.line}: {odd}.", consequence="debugpy would take it and never stop.")
        told = self.session.add_breakpoint(point)
        if not told.get("verified", True):
            raise DebuggerRefused(f"{point.file}:{point.line}: {told.get('message') or 'not verified'}.")
        return odd


def _is_rays(file: str) -> bool:
    return PurePath(file).parts[-3:-1] == ("ray", "util") or "ray/util/tracing" in file


def _odd(lines: Sequence[str], point: Breakpoint) -> str:
    if not lines:
        return "its source isn't here, so the line could not be checked"
    try:
        code = compile("".join(lines), point.file, "exec", dont_inherit=True)
    except SyntaxError:
        return "its source can't be compiled here, so the line could not be checked"
    numbers = sorted({number for part in inner(code) for _, _, number in part.co_lines() if number})
    if point.line in numbers:
        return ""
    near = sorted(sorted(numbers, key=lambda number: abs(number - point.line))[:3])
    return f"no code at this line; nearest: {', '.join(map(str, near))}"
