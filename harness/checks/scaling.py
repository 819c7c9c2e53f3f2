"""Does an agent scale, or does it serialise, and at which line; pure.

Three things are looked at, each against the whole time: callbacks that block the event loop, lines of the agent at
which runs stand in line for each other, and connections of an HTTP client that there are too few of. What the runs
wait for at the server doesn't count, however long it is: a bare client waits as long.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from harness.checks import server_queue
from harness.checks.stage3_data import CallRow, Stack, StackFrame, Stall, Wait
from harness.checks.stage3_rows import Rows, at_once

Kind = Literal["scales", "serialises", "slower", "undecided"]

# A part of the time from which something decides how fast all runs go.
LARGE = 0.25
# Below this part of the bare client's rate an agent is slower than the same calls need be.
SLOW = 0.5

# An agent can't make the same calls so much faster than a bare client: then these didn't go under the same conditions.
TOO_FAST = 1.2

# Packages whose own work for a call is part of any call, also of a bare client's.
_CALL_MACHINERY = (
    "openai",
    "anthropic",
    "httpx",
    "httpx2",
    "httpcore",
    "httpcore2",
    "h11",
    "pydantic",
    "anyio",
    "asyncio",
    "typing_extensions",
    "distro",
    "ssl",
)
# Frames below the user's that tell a blocking HTTP call.
_SYNC_HTTP = ("httpx/_client", "httpx2/_client", "requests/", "urllib3/", "urllib/request", "http/client", "socket.py")

_LINE_UP = {
    "lock": "a lock lets one run through at a time",
    "semaphore": "a semaphore lets only some runs through",
    "condition": "runs wait for each other at a condition",
    "queue": "runs wait in line at a queue",
    "thread": "runs wait for a thread of a pool",
    "connection": "the HTTP client has too few connections",
}


@dataclass(frozen=True)
class Cause:
    """Something that keeps runs from going on at the same time.

    Args:
        kind: ``blocking-call``, ``blocking-http``, ``cpu``, or a kind of wait.
        says: what it is, in a few words.
        share: of the whole time.
        frames: the way there, outermost first.
    """

    kind: str
    says: str
    share: float
    frames: tuple[StackFrame, ...]
    detail: str = ""

    @property
    def own(self) -> tuple[StackFrame, ...]:
        """The user's frames of it."""
        return tuple(frame for frame in self.frames if frame.own)


@dataclass(frozen=True)
class Verdict:
    """What was decided.

    Args:
        causes: what serialises, the largest first.
        ratio: calls a second, as a part of the bare client's; None where there is nothing to compare with.
        shares: parts of all run-seconds by what the runs were at: ``model``, ``connection``, ``lock`` …
        peak, mean: runs really in flight.
        reason: why it is undecided, where that isn't other programs' doing.
    """

    kind: Kind
    causes: tuple[Cause, ...] = ()
    ratio: float | None = None
    shares: dict[str, float] = field(default_factory=dict)
    peak: int = 0
    mean: float = 0.0
    reason: str = ""


def judge(rows: Rows, *, bare_rate: float | None) -> Verdict:
    """Decide.

    Args:
        bare_rate: calls a second of the bare client; None where it made none.
    """
    wall = rows.data.wall
    if not rows.runs or wall <= 0:
        return Verdict("undecided")
    # What a busy machine took from the loop is nobody's fault here.
    starved = min(rows.data.loop.starved, 0.95 * wall)
    had = wall - starved
    peak, mean, shares = in_flight(rows)
    answered = sum(call.ok for call in rows.calls)
    ratio = None if not bare_rate or not answered else answered / wall / bare_rate
    found = [
        *_blocking(rows.data.stalls, had),
        *_sleeping(rows, had),
        *_computing(rows, had),
        *_making_clients(rows, had),
        *_standing_in_line(rows),
    ]
    causes = tuple(sorted(_distinct(found), key=lambda cause: -cause.share))
    if causes:
        return Verdict("serialises", causes, ratio, shares, peak, mean)
    if rows.data.asked.faults:
        return Verdict(
            "undecided", (), ratio, shares, peak, mean, "calls that fail take time, and a bare client's don't"
        )
    if ratio is not None and ratio < SLOW and wall > 1.0 and not server_queue.of(rows.bare).broken_off:
        # The bare client may have had the processors that the runs did without.
        kind: Kind = "undecided" if starved > LARGE * wall else "slower"
        return Verdict(kind, (), ratio, shares, peak, mean)
    if ratio is not None and (reason := _why_incomparable(rows, ratio)):
        if wall > 1.0:
            return Verdict("undecided", (), ratio, shares, peak, mean, reason)
        ratio = None  # in so short a time the two aren't alike anyway
    return Verdict("scales", (), ratio, shares, peak, mean)


def _why_incomparable(rows: Rows, ratio: float) -> str:
    """Why the bare client's rate is nothing to hold the agent's against; "" where it is."""
    broken_off = server_queue.of(rows.bare).broken_off
    if broken_off:
        return f"the bare client's time was up before {broken_off} of its {len(rows.bare)} calls were answered"
    if ratio > TOO_FAST:
        return "nothing is faster than the same calls alone, so the server was another while the bare client made them"
    return ""


def in_flight(rows: Rows) -> tuple[int, float, dict[str, float]]:
    """The most runs really in flight, their mean, and what runs spent their time on.

    A run that stands in line (for a lock, a connection, its turn) isn't in flight. Calls give the exact course where
    there are only few looks at the runs.
    """
    totals: dict[str, float] = defaultdict(float)
    for wait in rows.data.waits:
        totals[wait.kind] += wait.run_seconds
    whole = sum(totals.values())
    shares = {kind: seconds / whole for kind, seconds in totals.items()} if whole else {}
    spans = [(call.sent, call.ended) for call in rows.calls if call.sent is not None]
    peak, mean = at_once(spans, rows.data.wall)
    course = rows.data.course
    if course:
        working = [point.active - point.queued for point in course]
        peak = max(peak, *working)
        if len(course) >= 5:
            mean = max(mean, sum(working) / len(working))
    return peak, mean, shares


def _blocking(stalls: Sequence[Stall], wall: float) -> Iterable[Cause]:
    """Lines that block the event loop in a system call, or hold the interpreter's lock."""
    for frames, seconds, waiting in _by_own_line(stalls):
        share = seconds / wall
        if share < LARGE:
            continue
        if waiting or _is_sync_http(frames):
            yield _blocked_by(frames, share)
        elif not is_machinery(frame.file for frame in _below(frames)):
            yield Cause("cpu", "its computing stops the event loop", share, frames)


def _by_own_line(stalls: Iterable[Stall]) -> Iterable[tuple[tuple[StackFrame, ...], float, bool]]:
    """Stalls put together by the user's innermost line, with the frames of the longest."""
    groups: dict[tuple[str, int], list[Stall]] = defaultdict(list)
    for stall in stalls:
        own = [frame for frame in stall.frames if frame.own]
        if own:
            groups[own[-1].file, own[-1].line].append(stall)
    for group in groups.values():
        seconds = sum(stall.seconds for stall in group)
        waiting = sum(stall.seconds for stall in group if stall.waiting) > seconds / 2
        yield max(group, key=lambda stall: stall.seconds).frames, seconds, waiting


def _sleeping(rows: Rows, wall: float) -> Iterable[Cause]:
    """Lines in whose calls the event loop sleeps, though no single one is long: many of them make a long wait, too."""
    for group in _by_line(rows.data.profile):
        seconds = sum(stack.slept for stack in group)
        if seconds >= LARGE * wall:
            yield _blocked_by(max(group, key=lambda stack: stack.slept).frames, seconds / wall)


def _computing(rows: Rows, wall: float) -> Iterable[Cause]:
    """Lines that keep the event loop busy, though no single callback is long."""
    for group in _by_line(rows.data.profile):
        own = [stack for stack in group if not is_machinery(frame.file for frame in _below(stack.frames))]
        seconds = sum(stack.seconds - stack.slept for stack in own)
        if seconds < LARGE * wall:
            continue
        frames = max(own, key=lambda stack: stack.seconds - stack.slept).frames
        if _is_sync_http(frames):
            yield _blocked_by(frames, seconds / wall)
        else:
            yield Cause("cpu", "its computing keeps the event loop busy", seconds / wall, frames)


def _blocked_by(frames: tuple[StackFrame, ...], share: float) -> Cause:
    if _is_sync_http(frames):
        return Cause("blocking-http", "a blocking HTTP call stops the event loop", share, frames)
    return Cause("blocking-call", "a blocking call stops the event loop", share, frames)


def _is_sync_http(frames: Sequence[StackFrame]) -> bool:
    return any(part in frame.file for frame in _below(frames) for part in _SYNC_HTTP)


def _by_line(profile: Iterable[Stack]) -> Iterable[list[Stack]]:
    """Where the loop's thread was, by the user's innermost line."""
    groups: dict[tuple[str, int], list[Stack]] = defaultdict(list)
    for stack in profile:
        own = [frame for frame in stack.frames if frame.own]
        if own:
            groups[own[-1].file, own[-1].line].append(stack)
    return groups.values()


def _below(frames: Sequence[StackFrame]) -> tuple[StackFrame, ...]:
    """What lies below the user's innermost frame."""
    own = [number for number, frame in enumerate(frames) if frame.own]
    return tuple(frames[own[-1] + 1 :]) if own else tuple(frames)


def _making_clients(rows: Rows, had: float) -> Iterable[Cause]:
    """Lines at which each run makes an HTTP client of its own: most of it is reading certificates, in the loop."""
    for place in rows.data.clients:
        share = place.seconds / had
        if place.file and place.made > 1 and share >= LARGE:
            frame = StackFrame(file=place.file, line=place.line, function="", source=place.source, own=True)
            each = 1000 * place.seconds / place.made
            says = "making HTTP clients keeps the event loop busy"
            yield Cause("new-clients", says, share, (frame,), f"{place.made} clients, {each:.0f} ms of CPU each")


def is_machinery(files: Iterable[str]) -> bool:
    """Whether what lies below the user's frame is what a call to a model costs anybody."""
    return any(
        f"/{package}/" in file or file.endswith(f"/{package}.py") for file in files for package in _CALL_MACHINERY
    )


def _standing_in_line(rows: Rows) -> Iterable[Cause]:
    """Lines at which runs wait for each other."""
    whole = sum(wait.run_seconds for wait in rows.data.waits)
    groups: dict[tuple[str, str, int], list[Wait]] = defaultdict(list)
    for wait in rows.data.waits:
        own = [frame for frame in wait.frames if frame.own]
        # The SDK asks for the platform's name in a thread; that is part of any first call.
        if wait.kind == "thread" and any(frame.file.endswith("/_utils/_sync.py") for frame in wait.frames):
            continue
        if wait.kind in _LINE_UP and own:
            groups[wait.kind, own[-1].file, own[-1].line].append(wait)
    for (kind, _, _), group in groups.items():
        share = sum(wait.run_seconds for wait in group) / whole
        if share < LARGE:
            continue
        first = max(group, key=lambda wait: wait.run_seconds)
        if kind == "connection" and not _limits_connections(rows):
            continue
        frames, detail = first.frames, first.detail
        if kind == "connection":
            frames, detail = _made_at(rows, frames)
        yield Cause(kind, _LINE_UP[kind], share, frames, detail)


def _limits_connections(rows: Rows) -> bool:
    """Whether more requests wait for a connection than are on their way, and it isn't so with a bare client.

    At the start requests wait as well, until their connections are made; then as many are on their way soon after.
    """
    waiting = max((wait.most for wait in rows.data.waits if wait.kind == "connection"), default=0)
    peak = _peak(rows.calls, rows.data.wall)
    # A client in each run allows each run as many; and where nobody has a connection, nobody waits for one to be free:
    # the name isn't found, or the address doesn't answer.
    allowed = [
        place.limit * max(1, place.made) for place in rows.data.clients if place.limit is not None and place.file
    ]
    if not peak or (allowed and max(allowed) >= waiting + peak):
        return False
    known = bool(allowed) and peak <= max(allowed)
    return waiting > peak and (known or peak < _peak(rows.bare, rows.data.wall) / 2)


def _peak(calls: Iterable[CallRow], wall: float) -> int:
    return at_once([(call.sent, call.ended) for call in calls if call.sent is not None], wall)[0]


def _made_at(rows: Rows, frames: tuple[StackFrame, ...]) -> tuple[tuple[StackFrame, ...], str]:
    """Where the client with too few connections was made, if the agent made one; else where it is used."""
    limited = [place for place in rows.data.clients if place.limit is not None and place.file]
    if not limited:
        return frames, ""
    place = min(limited, key=lambda place: place.limit or 0)
    frame = StackFrame(file=place.file, line=place.line, function="", source=place.source, own=True)
    return (frame,), f"max_connections={place.limit}"


def _distinct(causes: Iterable[Cause]) -> list[Cause]:
    """One cause a line: the one that says the most of the time."""
    best: dict[tuple[str, int], Cause] = {}
    for cause in causes:
        own = cause.own
        place = (own[-1].file, own[-1].line) if own else ("", 0)
        if place not in best or cause.share > best[place].share:
            best[place] = cause
    return list(best.values())
