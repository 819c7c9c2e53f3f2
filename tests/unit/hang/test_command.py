"""``harness diagnose``: exit codes, JSON, and what reaches the terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness import console
from harness.cli import hang_dump, main
from harness.errors import SamplingDenied
from harness.hang.collect import assemble
from harness.hang.decide import diagnose
from harness.hang.show import show
from harness.processes.sampling import dumper
from harness.processes.sampling.model import NodeAnswer, ProcessEntry, SampleEntry, SampleRequest
from harness.settings import load_settings
from tests.support.hang_cases import ROOT
from tests.unit.hang.build import collective, dump, process, pyspy, pyspy_text, thread


@pytest.fixture(autouse=True)
def _verb(monkeypatch: pytest.MonkeyPatch) -> None:
    # `--json` turns the console to standard error for the rest of the process, which is one command's life elsewhere.
    monkeypatch.setattr(console.out(), "_file", None)
    monkeypatch.setitem(main.VERBS, "diagnose", ("diagnose", "Say who hangs, and why, from dumped stacks."))


@pytest.mark.parametrize(
    ("case", "code"), [("recorded/B_diff_w3", 1), ("healthy/idle-ray", 0), ("healthy/slow-training", 0)]
)
def test_the_exit_code_says_whether_something_hangs(case: str, code: int) -> None:
    assert main.run(["diagnose", str(ROOT / case)]) == code


def test_unusable_input_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["diagnose", str(tmp_path)]) == 2
    assert "holds no stack" in capsys.readouterr().err


def test_json_is_one_object_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["diagnose", str(ROOT / "recorded/H_dl_w2"), "--json"]) == 1
    verdict = json.loads(capsys.readouterr().out)
    wanted = {"state", "cause", "confidence", "candidates", "laggards", "evidence", "next", "groups", "processes"}
    assert wanted <= set(verdict)
    assert (verdict["state"], verdict["cause"], verdict["laggards"]) == ("hung", "data-worker", ["rank1"])
    assert {row["id"] for row in verdict["processes"]} == {"rank0", "rank1"}


def test_the_verdict_comes_first_then_groups_then_the_tree(capsys: pytest.CaptureFixture[str]) -> None:
    main.run(["diagnose", str(ROOT / "recorded/B_diff_w3")])
    text = capsys.readouterr().out
    order = [
        "Hung: ranks are in different collectives",
        "rank 0",
        "groups of equal stacks",
        "merged, outermost",
        "processes",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)


def test_escapes_in_frames_do_nothing_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = "f\x1b]0;owned\x07\x9b31m[bold]\u202e a.py:1"
    (tmp_path / "rank0.json").write_text(pyspy_text(pyspy(evil), pyspy("g b.py:1", name="\x1b[2Jx")))
    for arguments in ([], ["--all"], ["--json"]):
        main.run(["diagnose", str(tmp_path), *arguments])
        shown = capsys.readouterr()
        text = shown.out + shown.err
        assert not set(text) & set("\x1b\x07\x9b\u202e")
    assert "\\\\x1b" in text


def test_many_groups_and_processes_are_cut_short(capsys: pytest.CaptureFixture[str]) -> None:
    ranks = [
        process(thread(f"f{rank} a.py:{rank + 1}", *(f"g{n} b.py:1" for n in range(30))), id=f"rank{rank}")
        for rank in range(60)
    ]
    show(diagnose(dump(*ranks)))
    short = capsys.readouterr().out
    show(diagnose(dump(*ranks)), everything=True)
    everything = capsys.readouterr().out
    assert "more groups; harness hang-dump --all shows them, and so does the page" in short
    assert len(short) < len(everything)
    assert "rank59" in everything


def test_a_hundred_thousand_ranks_fit_on_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    """The objects are shared as the readers share them; the page must stay readable."""
    wait, late = collective(), thread("prepare data.py:7", "<module> train.py:99")
    ranks = [process(late if rank == 77_777 else wait, id=f"rank{rank}") for rank in range(100_000)]
    verdict = diagnose(dump(*ranks))
    assert verdict.laggards == ["rank77777"]
    show(verdict)
    text = capsys.readouterr().out
    assert "ranks 0-77776,77778-99999" in text
    assert len(text.splitlines()) < 60


# py-spy 0.4's own words, as nobody gets them for a process of root's.
_DENIED_BY_PY_SPY = (
    b"Permission Denied: Try running again with elevated permissions by going 'sudo env \"PATH=$PATH\" !!'\n"
)


def _entry(pid: int, error: str, file: str | None = None) -> ProcessEntry:
    return ProcessEntry(pid=pid, host="h", command="python train.py", samples=[SampleEntry(error=error, file=file)])


def test_py_spys_words_for_a_denied_process_are_known() -> None:
    assert dumper._outcome("py-spy", 1, b"", _DENIED_BY_PY_SPY).error == dumper.DENIED


def test_nobody_who_may_be_read_is_a_denial_and_not_an_unknown_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 65534)
    monkeypatch.setattr("harness.cli.next_steps.through_make", lambda: True)
    answer = NodeAnswer(host="h", processes=[_entry(7, dumper.DENIED)])
    collected = assemble([answer], {}, SampleRequest())
    settings = load_settings(environ={"PIDS": "7", "DRYDOCK_MAKE_VARS": "PIDS"})
    with pytest.raises(SamplingDenied) as raised:
        hang_dump._refuse_empty(collected, settings)
    assert raised.value.exit_code == 3
    assert raised.value.mend == "sudo -E make hang-dump PIDS=7"


def test_some_who_may_not_be_read_are_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 65534)
    stack = pyspy_text(pyspy("f a.py:1")).encode()
    answer = NodeAnswer(
        host="h", processes=[_entry(7, dumper.DENIED), _entry(8, "", "8.json")], dumps={"8.json": stack}
    )
    collected = assemble([answer], {}, SampleRequest())
    hang_dump._refuse_empty(collected, load_settings(environ={}))
    hang_dump._say_what(collected, load_settings(environ={"MATCH": "x"}), False)
    assert "1 of 2 processes couldn't be read" in capsys.readouterr().out
