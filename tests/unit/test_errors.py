"""What is read out of errors of others."""

from __future__ import annotations

import errno
import os

from harness.errors import without_descriptors


def wrapped(inner: BaseException, outer: BaseException) -> BaseException:
    """As a library raises its own error from the system's."""
    outer.__cause__ = inner
    return outer


def test_a_lack_of_descriptors_is_found_below_what_a_library_says() -> None:
    system = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    error = wrapped(wrapped(system, OSError("All connection attempts failed")), RuntimeError("Connection error."))
    assert without_descriptors(error) == "[Errno 24] Too many open files"


def test_it_is_found_in_a_group_of_attempts() -> None:
    class Group(Exception):  # Python 3.10 has none
        exceptions = (OSError(errno.EMFILE, os.strerror(errno.EMFILE)),)

    assert "Too many open files" in without_descriptors(wrapped(Group(), RuntimeError()))


def test_other_errors_say_nothing_and_circles_end() -> None:
    error = RuntimeError()
    error.__context__ = wrapped(error, ConnectionRefusedError(errno.ECONNREFUSED, "refused"))
    assert without_descriptors(error) == ""
