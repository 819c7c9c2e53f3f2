"""What a cluster does to a call, on demand; which fault a call meets depends on seed, run and call alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from harness.errors import BadSetting


@dataclass(frozen=True)
class Kind:
    """One kind of fault.

    Args:
        name: as it is written in ``FAULTS=``.
        says: what happens, in a few words.
        seconds: the duration that belongs to it where none is given; None where it has none.
    """

    name: str
    says: str
    seconds: float | None = None


KINDS = (
    Kind("429", "refused with 429 and Retry-After", 1.0),
    Kind("500", "answered with 500"),
    Kind("503", "answered with 503"),
    Kind("reset", "connection reset before any answer"),
    Kind("cut-stream", "answer cut off in the middle"),
    Kind("slow-first-token", "first token late", 2.0),
    Kind("empty", "empty completion"),
    Kind("length", "cut at the token limit, finish_reason length"),
)
_BY_NAME = {kind.name: kind for kind in KINDS}

# What ``all`` stands for; eight kinds of it hit four calls in ten.
ALL_RATE = 0.05


@dataclass(frozen=True)
class Fault:
    """A fault as it is asked for.

    Args:
        rate: of all calls, 0 to 1.
        seconds: how long it lasts: Retry-After, or the delay of the first token; 0 where the kind has no duration.
    """

    name: str
    rate: float
    seconds: float = 0.0


def parse(text: str) -> tuple[Fault, ...]:
    """Read what ``FAULTS=`` says: ``429:0.1,slow-first-token:2s``, ``reset:0.05``, ``429:0.1:3s`` or ``all``.

    A kind without a rate meets every call.

    Raises:
        BadSetting: no such kind, no number, or rates that are more than 1 together.
    """
    faults: list[Fault] = []
    for part in (part.strip() for part in text.split(",")):
        if not part:
            continue
        name, *values = part.split(":")
        if name == "all":
            rate, _ = _values(part, values, ALL_RATE, None)
            faults += [Fault(kind.name, rate, kind.seconds or 0.0) for kind in KINDS]
        elif name in _BY_NAME:
            rate, seconds = _values(part, values, 1.0, _BY_NAME[name].seconds)
            faults.append(Fault(name, rate, seconds))
        else:
            raise _wrong(part, f"there is no fault {name!r}")
    names = [fault.name for fault in faults]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise _wrong(text, f"{twice} is there twice")
    if sum(fault.rate for fault in faults) > 1 + 1e-9:
        raise _wrong(text, "the rates are more than 1 together; a call meets one fault at most")
    return tuple(faults)


def _values(part: str, values: Iterable[str], rate: float, seconds: float | None) -> tuple[float, float]:
    """A rate and a duration, in any order; the duration ends in s or ms."""
    for value in values:
        scale = 0.001 if value.endswith("ms") else 1.0
        is_time = value.endswith("s")
        try:
            number = float(value.removesuffix("ms").removesuffix("s"))
        except ValueError:
            raise _wrong(part, f"{value!r} is neither a rate nor a duration") from None
        if is_time:
            if seconds is None:
                raise _wrong(part, "this fault has no duration")
            if not 0 <= number * scale <= 3600:
                raise _wrong(part, f"{value!r} is no duration of 0 to 3600 seconds")
            seconds = number * scale
        else:
            if not 0 <= number <= 1:
                raise _wrong(part, f"the rate {value} isn't between 0 and 1")
            rate = number
    return rate, seconds or 0.0


def _wrong(part: str, why: str) -> BadSetting:
    names = ", ".join(kind.name for kind in KINDS)
    return BadSetting(f"FAULTS={part}: {why}", mend=f"FAULTS=429:0.1,slow-first-token:0.2:2s   # there are: {names}")


def draw(faults: Iterable[Fault], seed: int, run: int, number: int) -> Fault | None:
    """The fault that a call meets, or none; the order in which calls arrive makes no difference."""
    digest = hashlib.blake2b(f"{seed}/{run}/{number}".encode(), digest_size=8).digest()
    at = int.from_bytes(digest, "big") / 2**64
    for fault in faults:
        if at < fault.rate:
            return fault
        at -= fault.rate
    return None
