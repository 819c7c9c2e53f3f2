"""Nothing that is printed moves a terminal's cursor, whoever wrote it."""

from __future__ import annotations

import json

import pytest

from harness import console
from harness.errors import ServiceFailed
from harness.printable import HARMFUL

NASTY = "\x1b]0;owned\x07\x1b[2J\x9b5n\r\u202e\udcff[bold]"
SHOWN = "\\x1b]0;owned\\x07\\x1b[2J\\x9b5n\\r\\u202e\\udcff[bold]"


def test_whatever_prints_a_foreign_text_makes_it_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    for say in (console.line, console.heading, console.ok, console.note, console.aside, console.mend):
        say(NASTY)
    console.bad(NASTY, NASTY)
    console.warn(NASTY, NASTY)
    console.table([NASTY], [[NASTY]], NASTY)
    console.facts([[NASTY, NASTY]])
    with console.step(NASTY):
        pass
    console.show_error(ServiceFailed(NASTY, consequence=NASTY, mend=NASTY, logs=f"{NASTY}\n{NASTY}"))
    printed = capsys.readouterr()
    text = printed.out + printed.err
    assert text.count("owned") >= 18
    assert not HARMFUL.findall(text.replace("\n", ""))
    assert SHOWN in text


def test_lines_and_tabs_stay(capsys: pytest.CaptureFixture[str]) -> None:
    console.line("a\n\tb")
    assert capsys.readouterr().out.splitlines()[0] == "a"


def test_a_json_document_says_the_same_and_does_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    console.emit_json({"said": NASTY, NASTY: ["é✓"]})
    text = capsys.readouterr().out
    assert not HARMFUL.findall(text.replace("\n", ""))
    assert "é✓" in text
    assert json.loads(text) == {"said": NASTY, NASTY: ["é✓"]}
