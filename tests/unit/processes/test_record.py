"""What is kept about processes and runs, and what is found in it."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

from harness.processes.exits import Exit
from harness.processes.findings import findings
from harness.processes.ledger import FILE, Ledger
from harness.processes.record import (
    FORKED_ONLY,
    MAYBE_PARENTS,
    TOO_SHORT,
    OutputRecord,
    ProcessRecord,
    RunRecord,
    Supervisor,
    process_record,
)
from harness.processes.watch import Tracked

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def tracked(pid: int = 7, code: int | None = 0, number: int | None = None) -> Tracked:
    ending = Exit(None if number else code, number, False, "pidfd")
    return Tracked(pid, 1, "python", 100, 0.0, command=["python", "a b.py"], ended=2.0, exit=ending, seen_to_end=True)


def process(pid: int, **more: object) -> ProcessRecord:
    values = {"pid": pid, "parent": 1, "name": "python", "command": "python", "start_ticks": 1, "started": NOON, **more}
    return ProcessRecord.model_validate(values)


def run(*processes: ProcessRecord, **more: object) -> RunRecord:
    values = {
        "command": "python train.py",
        "cwd": "/workspace",
        "shell": "/bin/sh",
        "background": False,
        "environment": [],
        "supervisor": Supervisor(pid=1, start_ticks=1, boot="", pid_namespace=1),
        "started": NOON,
        "stdout": OutputRecord(file="stdout.log", bytes=0),
        "stderr": OutputRecord(file="stderr.log", bytes=0),
        "exit_code": 0,
        **more,
        "processes": list(processes),
    }
    return RunRecord.model_validate(values)


def codes(record: RunRecord) -> list[str]:
    return [finding.code for finding in findings(record)]


def test_a_command_is_kept_as_a_shell_takes_it_without_its_secrets() -> None:
    record = process_record(tracked(), lambda text: text.replace("a b", "hidden"))
    assert (record.command, record.command_note) == ("python 'hidden.py'", "")
    assert process_record(tracked(), str).command == "python 'a b.py'"


def test_what_is_not_known_of_a_command_is_said() -> None:
    one = tracked()
    one.command_is_parents = True
    assert process_record(one, str).command_note == FORKED_ONLY
    one.seen_to_end = False
    assert process_record(one, str).command_note == MAYBE_PARENTS
    one.command = None
    record = process_record(one, str)
    assert (record.command, record.command_note) == (None, TOO_SHORT)


def test_a_command_of_megabytes_is_cut() -> None:
    one = tracked()
    one.command = ["python", "-c", "x" * 1_000_000]
    command = process_record(one, str).command
    assert command is not None
    assert len(command) < 5000
    assert command.endswith("(1000010 characters)")


def test_an_unknown_exit_is_neither_success_nor_failure() -> None:
    one = tracked()
    one.exit, one.unknown = None, "nobody knows"
    record = process_record(one, str)
    assert (record.exit_code, record.signal, record.failed, record.exit_note) == (None, None, False, "nobody knows")


def test_a_quiet_run_has_no_findings() -> None:
    assert codes(run(process(1, main=True, exit_code=0), process(2, exit_code=0))) == []


def test_children_that_failed_under_a_command_that_did_not() -> None:
    record = run(process(1, main=True, exit_code=0), process(2, exit_code=3), process(3, signal="SIGTERM"))
    (finding,) = findings(record)
    assert finding.code == "children-failed"
    assert "1 child did not: python (2, exit code 3)" in finding.text


def test_children_that_failed_are_no_news_when_the_command_failed_too() -> None:
    assert codes(run(process(1, main=True, exit_code=3), process(2, exit_code=3), exit_code=3)) == []


def test_a_crashed_child_is_news_in_any_case() -> None:
    record = run(process(1, main=True, exit_code=3), process(2, signal="SIGSEGV"), exit_code=3)
    assert codes(record) == ["children-crashed"]


def test_those_that_we_killed_did_not_crash() -> None:
    assert codes(run(process(2, signal="SIGKILL", ended_by_us="SIGKILL"))) == []


def test_processes_left_behind_are_named() -> None:
    (finding,) = findings(run(process(5, left_behind=True, signal="SIGTERM", ended_by_us="SIGTERM")))
    assert finding.code == "left-behind"
    assert "1 process of it went on: python (5, SIGTERM)" in finding.text


def test_a_long_list_is_cut() -> None:
    (finding,) = findings(run(*[process(pid, exit_code=1) for pid in range(10, 30)]))
    assert "and 15 more" in finding.text


def test_a_lack_of_memory_comes_first() -> None:
    record = run(process(2, signal="SIGKILL"), out_of_memory_kills=1)
    assert codes(record) == ["out-of-memory", "children-crashed"]


def test_what_the_shell_did_not_find() -> None:
    assert codes(run(exit_code=127)) == ["not-found"]
    assert codes(run(exit_code=126)) == ["not-executable"]


def test_lost_output_is_a_finding() -> None:
    lost = OutputRecord(file="stdout.log", bytes=1, problem="stdout.log is incomplete: No space left on device")
    (finding,) = findings(run(stdout=lost))
    assert finding.text == "stdout.log is incomplete: No space left on device."


def test_the_ledger_writes_all_and_keeps_what_matters(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, str)
    ledger.expect_main(1)
    for pid in range(2, 3002):
        ledger.ended(tracked(pid, code=1 if pid in (50, 2990) else 0))
    ledger.mark(3010, left_behind=True, signal="SIGTERM")
    ledger.ended(tracked(3010, number=15))
    ledger.ended(tracked(1))
    ledger.close()
    lines = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()]
    assert [line["pid"] for line in lines] == [*range(2, 3002), 3010, 1]
    assert ledger.count == 3002
    kept = {record.pid: record for record in ledger.kept}
    assert len(kept) == 2003
    assert kept[2990].exit_code == 1
    assert (kept[3010].left_behind, kept[3010].ended_by_us, kept[3010].signal) == (True, "SIGTERM", "SIGTERM")
    assert kept[1].main
    assert ledger.main is kept[1]
