from __future__ import annotations

from xml.etree import ElementTree

from harness.runs.junit import Case, Suite, to_xml


def test_cases_are_counted_and_shown() -> None:
    suite = Suite(
        "stage1",
        [
            Case("a", "passed", text="worth knowing"),
            Case("b", "failed", "it broke", "why\nand where", 1.5, "x.py", 3),
            Case("c", "skipped", "not asked"),
            Case("d", "passed"),
        ],
        2.0,
        {"seed": "5"},
    )
    root = ElementTree.fromstring(to_xml([suite]))
    (found,) = root.findall("testsuite")
    assert {name: found.get(name) for name in ("tests", "failures", "skipped", "errors", "time")} == {
        "tests": "4",
        "failures": "1",
        "skipped": "1",
        "errors": "0",
        "time": "2.000",
    }
    failed = found.find("testcase[@name='b']")
    assert failed is not None
    assert (failed.get("file"), failed.get("line"), failed.get("time")) == ("x.py", "3", "1.500")
    failure = failed.find("failure")
    assert failure is not None
    assert (failure.get("message"), failure.text) == ("it broke", "why\nand where")
    assert found.findtext("testcase[@name='a']/system-out") == "worth knowing"
    assert found.find("testcase[@name='d']/system-out") is None
    assert found.find("properties/property[@name='seed'][@value='5']") is not None


def test_what_xml_cannot_hold_is_replaced() -> None:
    xml = to_xml([Suite("s", [Case("a\x00b", "failed", "\x1b[31mred & <b>\ud800", "\x08")])])
    case = ElementTree.fromstring(xml.encode()).find(".//testcase")
    assert case is not None
    assert case.get("name") == "a\ufffdb"
    failure = case.find("failure")
    assert failure is not None
    assert failure.get("message") == "\ufffd[31mred & <b>\ufffd"
