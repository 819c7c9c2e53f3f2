"""Findings as JUnit XML, the one report format that every CI system reads."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal
from xml.etree import ElementTree

# XML 1.0 has no way to write these at all.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Case:
    """One test case.

    Args:
        text: shown below a failure, or as output of a case that passed.
    """

    name: str
    outcome: Literal["passed", "failed", "skipped"]
    message: str = ""
    text: str = ""
    seconds: float = 0.0
    file: str = ""
    line: int | None = None


@dataclass(frozen=True)
class Suite:
    """Cases that belong together."""

    name: str
    cases: Iterable[Case]
    seconds: float = 0.0
    properties: dict[str, str] = field(default_factory=dict)


def to_xml(suites: Iterable[Suite]) -> str:
    """The suites as one document."""
    root = ElementTree.Element("testsuites", name="drydock")
    for suite in suites:
        cases = list(suite.cases)
        element = ElementTree.SubElement(
            root,
            "testsuite",
            name=_clean(suite.name),
            tests=str(len(cases)),
            failures=str(sum(case.outcome == "failed" for case in cases)),
            skipped=str(sum(case.outcome == "skipped" for case in cases)),
            errors="0",
            time=f"{suite.seconds:.3f}",
        )
        if suite.properties:
            properties = ElementTree.SubElement(element, "properties")
            for name, value in suite.properties.items():
                ElementTree.SubElement(properties, "property", name=_clean(name), value=_clean(value))
        for case in cases:
            element.append(_case(suite, case))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: Suite, case: Case) -> ElementTree.Element:
    attributes = {"classname": _clean(suite.name), "name": _clean(case.name), "time": f"{case.seconds:.3f}"}
    if case.file:
        attributes |= {"file": _clean(case.file), "line": str(case.line or 0)}
    element = ElementTree.Element("testcase", attributes)
    if case.outcome == "failed":
        ElementTree.SubElement(element, "failure", message=_clean(case.message)).text = _clean(case.text)
    elif case.outcome == "skipped":
        ElementTree.SubElement(element, "skipped", message=_clean(case.message))
    elif case.text:
        ElementTree.SubElement(element, "system-out").text = _clean(case.text)
    return element


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
