"""Runs checks side by side. Whatever a check does, hang or fail, the others are not held up by it."""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.doctor.check import Check
from harness.doctor.context import Context
from harness.doctor.findings import Finding, of_error, warn
from harness.errors import DrydockError
from harness.processes.crowding import patience

# From the start of the process to its end. On a busy machine Python itself takes a good part of that to start.
WHOLE_SECONDS = 5.0
SHOWING_SECONDS = 0.8
# Even then checks get this long: a doctor that looks at nothing is no use.
LEAST_SECONDS = 2.0


@dataclass(frozen=True)
class Outcome:
    """What one check found.

    Attributes:
        finished: it came to its end within its limit.
        seconds: how long it took, or was waited for.
    """

    check: Check
    findings: tuple[Finding, ...]
    seconds: float
    finished: bool = True


def time_left(age: float | None = None) -> float:
    """Seconds that checks may take, so that the process ends in time; more where many wait for this machine's cores.

    Args:
        age: seconds that are gone already; None: since this process was started.
    """
    return max(LEAST_SECONDS, WHOLE_SECONDS * patience() - SHOWING_SECONDS - (_age() if age is None else age))


def _age() -> float:
    """Seconds since this process was started.

    Both sides count from boot: psutil's create_time() adds a boot time of whole seconds, and may be wrong by one.
    """
    try:
        started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.5  # not Linux; what a start takes there


# Two threads that import packages which import each other can wait for one another; Python then fails one of them.
_IMPORTED_BY_SEVERAL = ("harness.models", "harness.stack.images.host_config", "harness.stack.status")


def run(checks: Sequence[Check], context: Context, whole: float) -> Iterator[Outcome]:
    """Start all checks at once; yields their outcomes in the order of the list, each as soon as it is there.

    Args:
        whole: seconds after which none is waited for any more, save for what was asked for by name.
    """
    started = time.monotonic()
    for module in _IMPORTED_BY_SEVERAL:
        with contextlib.suppress(ImportError):  # without the stack's packages: the checks that need them say so
            importlib.import_module(module)
    for job in [_Job(check, context) for check in checks]:
        on_request = job.check.limit_on_request if job.check.topic in context.asked else 0.0
        yield job.outcome(started, max(min(job.check.limit * patience(), whole), on_request))


@dataclass
class _Job:
    """A check in its thread; a daemon thread, because one that hangs must not keep the process alive."""

    check: Check
    context: Context
    _findings: list[Finding] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _end: float = 0.0

    def __post_init__(self) -> None:
        threading.Thread(target=self._run, name=f"doctor {self.check.id}", daemon=True).start()

    def outcome(self, started: float, limit: float) -> Outcome:
        if self._ended.wait(max(0.0, started + limit - time.monotonic())):
            return Outcome(self.check, tuple(self._findings), self._end - started)
        late = warn(
            f"The check {self.check.id} did not answer within {limit:.1f} s.",
            "Something there hangs, or this machine is very busy.",
            f"make doctor TOPIC={self.check.topic}",
        )
        return Outcome(self.check, (late,), limit, finished=False)

    def _run(self) -> None:
        try:
            self._findings = list(self.check.look(self.context))
        except DrydockError as error:
            self._findings = [of_error(error)]
        except Exception as error:  # noqa: BLE001  # a mistake of ours in one check must not cost the others
            self._findings = [_our_mistake(self.check, error)]
        finally:
            self._end = time.monotonic()
            self._ended.set()


def _our_mistake(check: Check, error: Exception) -> Finding:
    place = ""
    trace = error.__traceback__
    while trace is not None:
        place = f" ({trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return warn(
        f"The check {check.id} failed itself: {type(error).__name__}: {error}{place}",
        "This is a mistake in Drydock; what the check looks at is unknown, all other checks are not affected.",
        "please report it with the line above",
    )
