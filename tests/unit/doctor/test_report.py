"""Counts, the exit code, the JSON document, and the choice of topics."""

from __future__ import annotations

import pytest

from harness.doctor.check import Check
from harness.doctor.findings import Finding, bad, note, ok, warn
from harness.doctor.report import Report, summary
from harness.doctor.running import Outcome
from harness.doctor.topics import CHECKS, ON_REQUEST, TITLES, select
from harness.errors import UsageError


def report(*findings: Finding, finished: bool = True) -> Report:
    check = Check("disk.room", lambda _: [])
    return Report((Outcome(check, findings, 0.1, finished),), 1.25)


@pytest.mark.parametrize(
    ("findings", "code"),
    [
        ((), 0),
        ((ok("a"), note("b")), 0),
        ((ok("a"), warn("b", "c")), 0),
        ((ok("a"), bad("b", "c", "d")), 1),
    ],
)
def test_only_what_is_wrong_makes_the_exit_code_1(findings: tuple[Finding, ...], code: int) -> None:
    assert report(*findings).exit_code == code
    assert report(*findings).as_dict()["fine"] is (code == 0)


def test_the_last_line_counts() -> None:
    text = summary(report(ok("a"), ok("b"), bad("c", "d", "e"), warn("f", "g"), note("h")))
    assert text == "1 wrong, 1 warning, 2 fine, 1 note (1.2 s)"


def test_the_document_names_topic_check_and_every_mend() -> None:
    document = report(bad("full", "fails", "make clean\nmake down")).as_dict()
    assert document["counts"] == {"bad": 1, "warn": 0, "ok": 0, "note": 0}
    assert document["findings"] == [
        {
            "topic": "disk",
            "check": "disk.room",
            "sign": "bad",
            "text": "full",
            "consequence": "fails",
            "mend": ["make clean", "make down"],
            "fix": [],
        }
    ]


def test_a_check_that_is_still_running_is_known() -> None:
    assert not report(ok("a"), finished=False).finished


def test_topics_are_chosen_by_name() -> None:
    assert {check.topic for check in select("gpu, Disk")} == {"gpu", "disk"}
    assert select("") == tuple(check for check in CHECKS if check.topic not in ON_REQUEST)
    assert {check.topic for check in select("debugger")} == {"debugger"}


def test_an_unknown_topic_is_a_usage_error_that_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no topic `gppu`") as caught:
        select("disk,gppu")
    assert all(topic in caught.value.mend for topic in TITLES)


def test_every_check_has_a_topic_with_a_title_and_a_name_of_its_own() -> None:
    assert {check.topic for check in CHECKS} == set(TITLES)
    assert len({check.id for check in CHECKS}) == len(CHECKS)
    # Shown as they come: a topic's checks have to stand together.
    order = [check.topic for check in CHECKS]
    assert order == sorted(order, key=list(TITLES).index)
