"""What the terminal debugger shows of a process moves no cursor."""

from __future__ import annotations

import io
from types import SimpleNamespace

from harness.breakpoints.terminal.prompt import Prompt


def test_a_value_is_shown_as_text() -> None:
    shown = io.StringIO()
    Prompt.say(SimpleNamespace(stdout=shown), "'\x1b]0;owned\x07'\n\tnext \x9b5n")  # type: ignore[arg-type]
    assert shown.getvalue() == "'\\x1b]0;owned\\x07'\n\tnext \\x9b5n\n"
