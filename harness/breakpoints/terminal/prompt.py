"""The prompt: commands as in pdb and gdb, for several processes at once. Anything else is an expression."""

from __future__ import annotations

import cmd
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import IO

from harness.breakpoints.terminal.held import Held
from harness.dap.model import Breakpoint
from harness.errors import DebuggerGone, DebuggerSilent, DrydockError, UsageError
from harness.printable import printable_lines

AROUND = 5
FILTERS = {"none": (), "uncaught": ("uncaught",), "raised": ("raised", "uncaught"), "user": ("userUnhandled",)}
SHORT = {
    "w": "where", "bt": "where", "u": "up", "d": "down", "l": "list", "s": "step", "n": "next", "r": "return",
    "c": "continue", "b": "break", "q": "quit", "h": "help", "a": "locals", "exit": "quit", "EOF": "quit",
}  # fmt: skip

HELP = """\
look     where · up [N] · down [N] · frame N · list [LINE] · locals · p EXPR · pp EXPR · EXPR · stats ARRAY · decode IDS
go on    next · step · return · continue · pause · wait [SECONDS]
stop at  break [FILE:]LINE [if COND] [hit COUNT] [log TEXT] · clear [[FILE:]LINE] · exceptions none|uncaught|raised|user
several  sessions · session N · attach N · threads · thread N
leave    detach · quit          (the workers go on)
change   ! STATEMENT            Ctrl-C comes back to this prompt; what runs goes on running"""


class Prompt(cmd.Cmd):
    """Reads commands until `quit`; the caller detaches afterwards."""

    def __init__(
        self, held: list[Held], attach: Callable[[int], Held] | None = None, stdin: IO[str] | None = None
    ) -> None:
        super().__init__(stdin=stdin)
        self.held = held
        self.current = held[0]
        self._attach = attach
        self.use_rawinput = stdin is None and sys.stdin.isatty()

    # -- the loop -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Show where it stands, then read commands; Ctrl-C only breaks off the command that runs."""
        self._after_stop()
        while True:
            try:
                self.cmdloop()
                return
            except KeyboardInterrupt:
                self.say("\n(Ctrl-C: the command was broken off; `quit` leaves, and the workers go on)")

    @property
    def prompt(self) -> str:  # type: ignore[override]
        """Which session, and whether it stands."""
        state = "" if self.current.stopped else " runs"
        return f"({self.current.number}{state}) "

    def say(self, text: str) -> None:
        """Print a line, or several; values are foreign text."""
        # A debugger's prompt speaks for itself.
        print(printable_lines(text), file=self.stdout, flush=True)

    def emptyline(self) -> bool:
        """Nothing; repeating the last command would step unasked."""
        return False

    def onecmd(self, line: str) -> bool:
        """Run one command; what goes wrong is told, and the prompt stays."""
        word, _, rest = line.strip().partition(" ")
        name = SHORT.get(word, word)
        try:
            if line.startswith("!"):
                self._print(self.current.execute(line[1:].strip()))
                return False
            if hasattr(self, f"do_{name}"):
                return bool(getattr(self, f"do_{name}")(rest.strip()))
            if line.strip():
                self._print(self.current.value(line.strip()))
        except DebuggerGone as error:
            self.say(f"✗ session {self.current.number}: {error.what}")
            return self._forget()
        except DrydockError as error:
            self.say(f"✗ {error.what}")
            for text in (error.consequence, error.mend and f"→ {error.mend}"):
                if text:
                    self.say(f"  {text}")
        except (ValueError, SyntaxError) as error:
            self.say(f"✗ {error}")
        return False

    def _forget(self) -> bool:
        """Drop a process that has ended; True when none is left."""
        self.held.remove(self.current)
        if not self.held:
            self.say("No process is left.")
            return True
        self.current = self.held[0]
        self.say(f"now in session {self.current.number}, {self.current.name}")
        return False

    # -- looking ------------------------------------------------------------------------------------------------------

    def do_where(self, _: str) -> None:
        """The stack, innermost frame first."""
        self.current.frame  # noqa: B018  # says so where nothing stands
        for index, frame in enumerate(self.current.frames):
            mark = ">" if index == self.current.index else " "
            self.say(f"{mark} {index:2} {frame.name}  {frame.file}:{frame.line}")

    def do_up(self, text: str) -> None:
        """An outer frame."""
        self.current.move(int(text or 1))
        self._here()

    def do_down(self, text: str) -> None:
        """An inner frame."""
        self.current.move(-int(text or 1))
        self._here()

    def do_frame(self, text: str) -> None:
        """The frame of a number."""
        self.current.move(int(text or 0) - self.current.index)
        self._here()

    def do_list(self, text: str) -> None:
        """Source around the line."""
        frame = self.current.frame
        centre = int(text) if text else frame.line
        lines = self.current.source(frame.file)
        points = {p.line for p in self.current.session.breakpoints if p.file == frame.file}
        for number in range(max(centre - AROUND, 1), min(centre + AROUND, len(lines)) + 1):
            mark = "->" if number == frame.line else "B " if number in points else "  "
            self.say(f"{number:5} {mark} {lines[number - 1].rstrip()}")

    def do_locals(self, _: str) -> None:
        """Local variables; arrays by shape, type and device."""
        for name, value in self.current.locals():
            self.say(f"{name} = {value}")

    def do_p(self, text: str) -> None:
        """Print an expression."""
        self._print(self.current.value(_given(text, "p EXPRESSION")))

    def do_pp(self, text: str) -> None:
        """Print it over several lines."""
        self._print(self.current.value(_given(text, "pp EXPRESSION"), "pretty"))

    def do_stats(self, text: str) -> None:
        """Least, mean, greatest, NaN, Inf and a histogram."""
        self._print(self.current.value(_given(text, "stats ARRAY"), "stats"))

    def do_decode(self, text: str) -> None:
        """Token ids as text."""
        self._print(self.current.value(f"decode({_given(text, 'decode IDS')})", "text"))

    # -- going on -----------------------------------------------------------------------------------------------------

    def do_next(self, _: str) -> None:
        """To the next line of this function."""
        self._go("next")

    def do_step(self, _: str) -> None:
        """Into what is called."""
        self._go("stepIn")

    def do_return(self, _: str) -> None:
        """Out of this function."""
        self._go("stepOut")

    def do_continue(self, _: str) -> None:
        """On to the next stop of any session."""
        self._go("continue")

    def do_pause(self, _: str) -> None:
        """Stop it where it is."""
        self.current.session.pause()
        self._wait(10.0, self._others_that_stand())

    def do_wait(self, text: str) -> None:
        """Wait for the next stop."""
        self._wait(float(text) if text else None, self._others_that_stand())

    def _go(self, how: str) -> None:
        self.current.frame  # noqa: B018
        standing = self._others_that_stand()
        self.current.go(how)
        self._wait(None, standing)

    def _others_that_stand(self) -> list[Held]:
        return [held for held in self.held if held is not self.current and held.stopped]

    def _wait(self, seconds: float | None, standing: Sequence[Held]) -> None:
        """Until any session stops; the one that stopped becomes the current one.

        Args:
            standing: those that stood before; they have nothing new to tell.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        while deadline is None or time.monotonic() < deadline:
            for held in [self.current, *self.held]:
                if held.stopped and held not in standing:
                    self.current = held
                    self._after_stop()
                    return
                if held.session.gone:
                    self.current = held
                    raise DebuggerGone("the process has ended.")
            time.sleep(0.02)
        raise DebuggerSilent("Nothing has stopped.", consequence="It runs.")

    def _after_stop(self) -> None:
        held = self.current
        if not held.stopped:
            self.say(f"session {held.number}, {held.name}: runs; `pause` stops it, `wait` waits for a breakpoint")
            return
        stop = next(iter(held.session.stopped.values()))
        held.look(stop)
        what = f" {stop.text}" if stop.text and stop.reason == "exception" else ""
        self.say(f"session {held.number}, {held.name}: {stop.reason}{what}")
        self._here()

    def _here(self) -> None:
        frame = self.current.frame
        lines = self.current.source(frame.file)
        self.say(f"> {frame.name}  {frame.file}:{frame.line}")
        if 0 < frame.line <= len(lines):
            self.say(f"{frame.line:5} -> {lines[frame.line - 1].rstrip()}")

    # -- breakpoints --------------------------------------------------------------------------------------------------

    def do_break(self, text: str) -> None:
        """Set one, or list all."""
        if not text:
            for point in self.current.session.breakpoints:
                parts = [
                    f"if {point.condition}" * bool(point.condition),
                    f"hit {point.hit_count}" * bool(point.hit_count),
                ]
                parts += [f"log {point.log}" * bool(point.log)]
                self.say(f"{point.file}:{point.line} {' '.join(filter(None, parts))}".rstrip())
            return
        point = parsed_break(text, self.current.file_for)
        odd = self.current.add(point)
        self.say(f"breakpoint at {point.file}:{point.line}" + (f" ({odd})" if odd else ""))

    def do_clear(self, text: str) -> None:
        """Take breakpoints away."""
        name, line = _place(text) if text else ("", None)
        file = self.current.file_for(name) if text else None
        self.say(f"{self.current.session.remove_breakpoints(file, line)} taken away")

    def do_exceptions(self, text: str) -> None:
        """At which exceptions to stop."""
        if text not in FILTERS:
            raise UsageError(f"exceptions {' | '.join(FILTERS)}")
        self.current.session.set_exceptions(FILTERS[text])
        self.say(f"stops at exceptions: {text}")

    # -- several ------------------------------------------------------------------------------------------------------

    def do_sessions(self, _: str) -> None:
        """The processes that are held here."""
        for held in self.held:
            mark = ">" if held is self.current else " "
            self.say(f"{mark} {held.number}  {held.name}  {'stands' if held.stopped else 'runs'}")

    def do_session(self, text: str) -> None:
        """Go to another process."""
        number = int(_given(text, "session NUMBER"))
        for held in self.held:
            if held.number == number:
                self.current = held
                self._after_stop()
                return
        raise UsageError(f"Session {number} isn't held here.", mend=f"attach {number}")

    def do_attach(self, text: str) -> None:
        """Hold one more process, by its session or its PID."""
        if self._attach is None:
            raise UsageError("No other process can be had here.")
        number = int(_given(text, "attach NUMBER"))
        if any(held.number == number for held in self.held):
            self.do_session(text)
            return
        self.current = self._attach(number)
        self.held.append(self.current)
        self._after_stop()

    def do_threads(self, _: str) -> None:
        """The threads of the process."""
        for number, name in self.current.session.threads().items():
            mark = ">" if number == self.current.thread else " "
            self.say(f"{mark} {number}  {name}  {'stands' if number in self.current.session.stopped else ''}".rstrip())

    def do_thread(self, text: str) -> None:
        """Look at another thread that stands still."""
        stop = self.current.session.stopped.get(int(_given(text, "thread NUMBER")))
        if stop is None:
            raise UsageError(f"Thread {text} doesn't stand still.", mend="threads")
        self.current.look(stop)
        self._here()

    # -- leaving ------------------------------------------------------------------------------------------------------

    def do_detach(self, _: str) -> bool:
        """Let this process go."""
        self.current.session.detach()
        self.say(f"session {self.current.number} goes on by itself")
        return self._forget()

    def do_quit(self, _: str) -> bool:
        """Leave; all processes go on."""
        return True

    def do_help(self, _: str) -> None:
        """What there is."""
        self.say(HELP)

    def _print(self, text: str) -> None:
        if text:
            self.say(text)


def parsed_break(text: str, file_for: Callable[[str], str]) -> Breakpoint:
    """``[FILE:]LINE [if CONDITION] [hit COUNT] [log TEXT]`` as a breakpoint.

    Raises:
        UsageError: it isn't that.
    """
    place, _, rest = text.partition(" ")
    name, line = _place(place)
    found = {"if": "", "hit": "", "log": ""}
    # The text of a log point may have any words in it, so it is last.
    rest, marker, found["log"] = re.sub(r"^\s*log ", " log ", f" {rest}").partition(" log ")
    parts = re.split(r"(?:^|\s)(if|hit) ", rest.strip())
    for key, value in zip(parts[1::2], parts[2::2], strict=False):
        found[key] = value.strip()
    if parts[0].strip() or (marker and not found["log"].strip()):
        raise UsageError("break [FILE:]LINE [if CONDITION] [hit COUNT] [log TEXT]")
    if found["if"]:
        try:
            compile(found["if"], "<condition>", "eval")
        except SyntaxError as error:
            raise UsageError(f"The condition can't be read: {error.msg}.") from None
    return Breakpoint(file_for(name), line, found["if"], found["hit"], found["log"].strip())


def _place(text: str) -> tuple[str, int]:
    name, _, number = text.rpartition(":")
    if not number.isdigit() or (name and not PurePath(name).name):
        raise UsageError("A place is LINE or FILE:LINE.")
    return name, int(number)


def _given(text: str, usage: str) -> str:
    if not text:
        raise UsageError(usage)
    return text
