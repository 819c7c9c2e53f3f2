"""Going on in the background: a process that survives its caller, and a caller that knows it got off the ground."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from harness.errors import CommandNotStarted, DrydockError

Report = Callable[[str], None]


def in_background(log: Path, action: Callable[[Report], None]) -> str:
    """Run an action in a new session, without input, with its own words in a log file.

    Returns as soon as the action has reported that it stands; the process ends with the action.

    Args:
        log: for what the process itself prints, such as a traceback; removed if that is nothing.
        action: gets a function to call once, with the text that this function then returns.

    Raises:
        CommandNotStarted: the action failed, or its process died, before it reported.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    if os.fork() == 0:
        os.close(reader)
        _live(log, writer, action)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as file:
        answer = file.read()
    if not answer:
        raise CommandNotStarted("The process that was to run the command ended at once.", mend=f"cat {log}")
    kind, _, text = answer.partition(" ")
    if kind == "error":
        raise CommandNotStarted(**json.loads(text))
    return text


def _live(log: Path, writer: int, action: Callable[[Report], None]) -> None:
    """The new process's whole life; never returns."""
    status = 1

    def report(text: str) -> None:
        os.write(writer, f"stands {text}".encode())
        os.close(writer)

    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        words = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, number in ((nothing, 0), (words, 1), (words, 2)):
            os.dup2(descriptor, number)
        action(report)
        status = 0
    except DrydockError as error:
        said = {"what": error.what, "consequence": error.consequence, "mend": error.mend}
        _try_to_say(writer, f"error {json.dumps(said)}")
        sys.stderr.write(f"{error.what}\n")
    except BaseException:  # noqa: BLE001  # nothing may climb into the caller's code, which has a process of its own
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        if log.exists() and log.stat().st_size == 0:
            log.unlink()
        os._exit(status)


def _try_to_say(writer: int, text: str) -> None:
    try:
        os.write(writer, text.encode())
    except OSError:
        pass  # it has reported already, and the caller is gone
