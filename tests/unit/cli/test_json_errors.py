"""With ``--json``, ``JSON=1`` or a line in drydock.env, every end of every verb is one JSON document."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import click
import pytest

from harness.cli import main, status
from harness.errors import UsageError


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, str]]:
    code = main.run(list(arguments))
    printed = capsys.readouterr()
    assert "✗" in printed.err
    document: dict[str, str] = json.loads(printed.out)
    return code, document


@pytest.mark.parametrize(
    ("arguments", "word", "mend"),
    [
        (["nonsense"], "nonsense", "harness --help"),
        (["status", "--nonsense"], "--nonsense", "harness status --help"),
        (["status", "nonsense"], "nonsense", "harness status --help"),
        (
            ["diagnose"],
            "No dump is named",
            "make diagnose DUMP=runs/latest   # or a file that somebody sent\nmake hang-dump   # takes one now",
        ),
    ],
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], arguments: list[str], word: str, mend: str) -> None:
    code, document = said(capsys, *arguments, "--json")
    assert code == 2
    assert document["error"] == "UsageError"
    assert word in document["what"]
    assert document["mend"] == mend


@pytest.mark.parametrize(
    ("end", "code", "word"),
    [
        (KeyboardInterrupt(), 130, "Ctrl-C"),
        (ZeroDivisionError("oh"), 1, "ZeroDivisionError: oh"),
        (UsageError("this way not"), 2, "this way not"),
        (OSError(errno.ENOSPC, "No space left on device", "/full/up.json"), 3, "/full/up.json"),
    ],
)
@pytest.mark.parametrize("way", ["flag", "environment", "file"])
def test_however_it_ends_and_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    way: str,
    end: BaseException,
    code: int,
    word: str,
) -> None:
    @click.command("status")
    @click.option("--json", "as_json", is_flag=True)
    def verb(as_json: bool) -> None:
        raise end

    monkeypatch.setattr(status, "command", verb)
    if way == "environment":
        monkeypatch.setenv("JSON", "1")
    if way == "file":
        (tmp_path / "drydock.env").write_text("JSON=yes\n")
    ended, document = said(capsys, "status", *(["--json"] if way == "flag" else []))
    assert ended == code
    assert word in document["what"]


@pytest.mark.parametrize(
    "verb", ["up", "down", "status", "logs", "run", "check", "restart-ray", "doctor", "settings", "clean"]
)
def test_what_reports_knows_the_flag(verb: str) -> None:
    command = main.cli.get_command(click.Context(main.cli), verb)
    assert command is not None
    assert "--json" in [flag for parameter in command.params for flag in parameter.opts]


def test_a_shell_says_that_it_has_no_answer_in_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JSON", "1")
    code, document = said(capsys, "shell")
    assert (code, document["error"]) == (2, "UsageError")
