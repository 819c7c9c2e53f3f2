"""The zoo's programs and the tables about them say the same; nothing is started."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.hang.causes import CAUSES
from harness.hang.zoo.program import APART, Program, programs, read

ZOO = Path(__file__).resolve().parents[3] / "examples/hangs"
README = (ZOO / "README.md").read_text(encoding="utf-8")
EVERY = [program for folder in (ZOO, *(ZOO / name for name in APART)) for program in programs(folder)]


def rows(heading: str) -> dict[str, str]:
    """First and last column of the table below a heading row."""
    table = README.partition(f"{heading}\n")[2].partition("\n\n")[0]
    found = [re.split(r" *\| *", line.strip("| ")) for line in table.splitlines()[1:]]
    return {cells[0].strip("`"): cells[-1] for cells in found}


def test_the_table_of_keys_names_all_of_them() -> None:
    keys = {*rows("| key | means |")} - {"neither"}
    assert keys == {*Program.model_fields} - {"path", "about"}


def test_the_table_of_causes_is_what_the_programs_say() -> None:
    by_cause: dict[str, list[str]] = {}
    for program in programs(ZOO):
        by_cause.setdefault(program.accept[0], []).append(program.name)
    shown = {cause: re.findall(r"`([^`]+)`", names) for cause, names in rows("| cause | programs |").items()}
    assert shown == by_cause


def test_codes_are_ones_that_a_verdict_can_have() -> None:
    assert {code for program in EVERY for code in (*program.accept, *program.tie)} <= {*CAUSES}


def test_names_are_not_given_twice() -> None:
    names = [program.name for program in EVERY]
    assert sorted(names) == sorted({*names})


def test_a_healthy_program_accepts_that_nothing_hangs() -> None:
    assert [program.name for program in EVERY if program.state != "hung" and "none" not in program.accept] == []


@pytest.mark.parametrize(
    "header",
    ["state: hung\naccept: []", "state: hung\naccept: [x]\nlagards: []", "- a list", "state: [", "state: stuck"],
)
def test_a_header_that_is_wrong_is_refused(header: str, tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    path.write_text(f'"""What happens.\n\n---\n{header}\n"""\n')
    with pytest.raises(UsageError, match="can't be used as a program of the zoo"):
        read(path)
