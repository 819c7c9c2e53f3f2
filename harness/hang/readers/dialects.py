"""How py-spy, faulthandler, pystack, gdb and people write a thread and a frame as text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.hang.model import Frame
from harness.hang.readers.digits import whole
from harness.hang.readers.paths import short

# What a terminal would obey rather than show.
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")

# --- who: the lines that open a process -----------------------------------------------------------------------------
PYSPY_PROCESS = re.compile(r"^Process (\d{1,10}): ?(.*)$")
PYSPY_PARENT = re.compile(r"^Parent Process (\d{1,10}):")
PID_HEADING = re.compile(
    r"^[\s=\-#*>]*(?:py-?spy dump (?:for|of) )?(?:PID|process id)\s*[:=#]?\s*(\d{1,10})\b", re.IGNORECASE
)
RAY_STACK_HEADING = re.compile(r"^Stack dump for (?:\S+\s+)?(\d{1,10})\s+(.*)$")
_RANK_RANGE = r"\d{1,7}(?:\s*(?:[-–]|\.\.|to)\s*\d{1,7})?"
RANK_HEADING = re.compile(
    rf"^[\s=\-#*>\[(]*(?:global[ _])?ranks?\s*[:=#_]?\s*({_RANK_RANGE}(?:\s*(?:,|and|&)\s*{_RANK_RANGE})*)\b",
    re.IGNORECASE,
)
ALL_RANKS_HEADING = re.compile(r"^[\s=\-#*>]*all (?:\d+ )?(?:ranks|processes|workers)\b", re.IGNORECASE)
OTHER_HEADING = re.compile(r"^(?:#{1,6}\s+[A-Za-z].*|[=*-]{3,}\s*[A-Za-z].*)$")

# --- which thread ---------------------------------------------------------------------------------------------------
PYSPY_THREAD = re.compile(r'^\s*Thread\s+(0x[0-9A-Fa-f]+|\d+)\s+\(([a-z]+)((?:\+gil)?)\)(?::\s*"(.*)")?\s*$')
NAMED_THREAD = re.compile(r'^\s*Thread:?\s*"([^"]*)"\s*(?:\(([a-z]+)((?:\+gil)?)\))?\s*$')
FAULTHANDLER_THREAD = re.compile(
    r"^\s*(?:Current t|T)hread (0x[0-9A-Fa-f]+)(?: \[([^\]]*)\])? \(most recent call first\):"
)
PYSTACK_THREAD = re.compile(r"^\s*Traceback for thread (\d+)(?: \((.*?)\))? \[(.*?)\] \(most recent call last\):")
GDB_THREAD = re.compile(r'^\s*Thread (\d+) \((?:Thread 0x[0-9a-f]+ )?\(?(?:LWP (\d+))?\)?(?: "([^"]*)")?.*\):?\s*$')
FAULTHANDLER_START = re.compile(r"^(?:Timeout \(\d+:\d\d:\d\d(?:\.\d+)?\)!|Fatal Python error: )")

# --- frames ---------------------------------------------------------------------------------------------------------
# The name may hold spaces and brackets (C++), the place is what stands in the last pair of brackets.
PYSPY_FRAME = re.compile(
    r"^\s*(?P<name>\S.*?)\s+\((?P<file>[^()\s][^()]*?)(?::(?P<line>\d{1,9}|…|\.\.\.))?\)\s*(?:(?:←|<-|<--|//|#).*)?$"
)
BARE_FRAME = re.compile(r"^\s*[\w.<>$]+ \([\w./<>-]+\.(?:py|pyx|so[\w.]*)(?::\d+)?\)\s*(?:(?:←|<-|#).*)?$")
FAULTHANDLER_FRAME = re.compile(r'^\s*File "(?P<file>[^"]*)", line (?P<line>\d{1,9}|\?\?\?) in (?P<name>.+?)\s*$')
PYSTACK_FRAME = re.compile(
    r'^\s*\((?P<kind>Python|C)\) File "(?P<file>[^"]*)", line (?P<line>\d{1,9}), in (?P<name>.+?)'
    r"(?: \((?P<library>[^()]*\.so[^()]*|/[^()]*)\))?\s*$"
)
GDB_FRAME = re.compile(r"^#\d{1,5}\s+(?:0x[0-9a-f]+ in )?(?P<name>[^\s(][^(]*?)\s*\((?P<rest>.*)$")
_GDB_PLACE = re.compile(r"\) (?:from (?P<library>\S+)|at (?P<file>[^:\s]+):(?P<line>\d{1,9}))\s*$")
_LOCALS = re.compile(r"^\s*(?:Arguments|Locals):\s*$")


@dataclass(frozen=True)
class ThreadHead:
    """What the line that opens a thread says.

    Attributes:
        order: ``first`` when the innermost frame comes first, else ``last``.
    """

    tid: str
    name: str = ""
    active: bool | None = None
    holds_gil: bool = False
    order: str = "first"
    dialect: str = "py-spy"


def thread_head(line: str) -> ThreadHead | None:
    """Recognise a line that opens a thread."""
    if "hread" not in line[:60]:
        return None
    if match := PYSPY_THREAD.match(line):
        return ThreadHead(match[1], match[4] or "", match[2] == "active", bool(match[3]))
    if match := FAULTHANDLER_THREAD.match(line):
        return ThreadHead(match[1], "", None, dialect="faulthandler")
    if match := PYSTACK_THREAD.match(line):
        return ThreadHead(match[1], "", None, "Has the GIL" in match[3], "last", "pystack")
    if match := NAMED_THREAD.match(line):
        return ThreadHead(match[1], match[1], match[2] == "active" if match[2] else None, bool(match[3]))
    if "LWP" in line and (match := GDB_THREAD.match(line)):
        return ThreadHead(match[2] or match[1], match[3] or "", None, dialect="gdb")
    return None


def frames(lines: list[str], order: str) -> list[Frame]:
    """The frames among the lines of one thread, innermost first; lines of local variables are left out."""
    found: list[Frame] = []
    skip_below: int | None = None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if skip_below is not None:
            if indent >= skip_below:
                continue
            skip_below = None
        if _LOCALS.match(line):
            skip_below = indent
            continue
        frame = one_frame(line)
        if frame is not None:
            found.append(frame)
    return found if order == "first" else found[::-1]


def one_frame(line: str) -> Frame | None:
    """Read one line as a frame, in whichever spelling."""
    if 'File "' in line:
        if match := PYSTACK_FRAME.match(line):
            place = match["library"] if match["kind"] == "C" and match["library"] else match["file"]
            name = match["name"].removesuffix(" (inlined)")
            return Frame(name, short(place), whole(match["line"]) if match["kind"] == "Python" else 0)
        if match := FAULTHANDLER_FRAME.match(line):
            return Frame(match["name"], short(match["file"]), whole(match["line"]))
        return None
    if line.startswith("#"):
        return _gdb_frame(line)
    if match := PYSPY_FRAME.match(line):
        return Frame(match["name"], short(match["file"]), whole(match["line"]))
    return None


def _gdb_frame(line: str) -> Frame | None:
    match = GDB_FRAME.match(line)
    if match is None:
        return None
    place = _GDB_PLACE.search(match["rest"])
    if place is None:
        return Frame(match["name"].strip(), "")
    if place["library"]:
        return Frame(match["name"].strip(), short(place["library"]))
    return Frame(match["name"].strip(), short(place["file"]), whole(place["line"]))


def ranks_of(text: str) -> list[int]:
    """``0-2, 5`` as [0, 1, 2, 5]; a range that can't be meant (a million ranks) as its ends."""
    found: list[int] = []
    for part in re.split(r",|and|&", text):
        numbers = [int(number) for number in re.findall(r"\d{1,7}", part)]
        if len(numbers) == 2 and numbers[0] <= numbers[1] <= numbers[0] + 200_000:
            found.extend(range(numbers[0], numbers[1] + 1))
        else:
            found.extend(numbers)
    return found
