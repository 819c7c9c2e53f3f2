"""A check as one HTML page: what every stage found, with source lines, calls, and the course of many runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.checks import load_page
from harness.checks.findings import Finding, Place, StageResult, Status
from harness.checks.report import CheckReport
from harness.runs.html.excerpt import excerpt
from harness.runs.html.page import render
from harness.runs.redact import Redactor

NAME = "report.html"
_TEMPLATES = Path(__file__).parent / "templates"
SIGNS: dict[Status, str] = {"pass": "✓", "fail": "✗", "warn": "⚠", "absent": "·", "skip": "·"}

# Of a run's calls; a page with thousands of them helps nobody.
_CALLS = 200
_TEXT = 8000


def build(report: CheckReport, folder: Path, redactor: Redactor, *, made: str) -> str:
    """The page.

    Args:
        report: what was found.
        folder: the run's folder, with the raw material of the stages.
        redactor: goes over what the page shows beyond the report: lines of source.
        made: when, as people write it.
    """
    clean = CheckReport.model_validate(redactor.data(report.model_dump(mode="json")))
    stages = [_stage(stage, redactor) for stage in clean.stages]
    counts = [(status, many) for status, many in clean.counts.items() if many]
    return render(
        "check.html.j2",
        _TEMPLATES,
        name=folder.name,
        subject=clean.asked.get("agent") or clean.asked.get("base_url") or "",
        failed=clean.exit_code != 0,
        counts=counts,
        facts=_facts(clean, made),
        ended_early=clean.ended_early,
        stages=stages,
        signs=SIGNS,
        calls=_calls(folder / "stage2" / "calls.jsonl"),
        load=load_page.build(folder / "stage3", redactor),
        recorded=clean.asked.get("record"),
    )


def _facts(report: CheckReport, made: str) -> list[tuple[str, str]]:
    asked = report.asked
    rows = {
        "made": made,
        "took": f"{report.seconds:.1f} s",
        "agent": asked.get("agent"),
        "data": asked.get("data"),
        "model": asked.get("model"),
        "server": asked.get("base_url"),
        "replayed": asked.get("replay"),
        "recorded into": asked.get("record"),
        "seed": report.seed,
    }
    return [(name, str(value)) for name, value in rows.items() if value not in (None, "")]


def _stage(stage: StageResult, redactor: Redactor) -> dict[str, Any]:
    return {
        "number": stage.stage,
        "title": stage.title,
        "seconds": stage.seconds,
        "ended_early": stage.ended_early,
        "figures": [(key.replace("_", " "), _brief(value)) for key, value in stage.figures.items() if _is_plain(value)],
        "findings": [_finding(finding, redactor) for finding in stage.findings],
    }


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, int, float)) and value != ""


def _brief(value: Any) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _finding(finding: Finding, redactor: Redactor) -> dict[str, Any]:
    place = finding.place
    return {
        "finding": finding,
        "mend": finding.mend.splitlines(),
        "place": place,
        "lines": _excerpt(place, redactor) if place is not None else [],
        "stack": [{**frame.model_dump(), "own": True} for frame in finding.stack],
        "facts": json.dumps(finding.facts, indent=2, ensure_ascii=False, default=str)[:_TEXT] if finding.facts else "",
        # What is wrong lies open; the rest is there to be opened.
        "open": finding.status in ("fail", "warn"),
    }


def _excerpt(place: Place, redactor: Redactor) -> list[dict[str, Any]]:
    lines = excerpt(place.file, place.line)
    return [{"number": line.number, "text": redactor.text(line.text), "marked": line.marked} for line in lines]


def _calls(path: Path) -> list[dict[str, Any]]:
    return [_call(value) for value in load_page.lines(path)[:_CALLS] if value.get("protocol") != "other"]


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    reply = call.get("reply") or {}
    request = call.get("request")
    said = [reply.get("text") or "", *(f"{one['name']}({one['arguments']})" for one in reply.get("tool_calls") or ())]
    return {
        "number": call.get("number"),
        "path": call.get("path"),
        "status": call.get("status"),
        "failure": call.get("failure"),
        "seconds": call.get("seconds"),
        "tokens_in": reply.get("prompt_tokens"),
        "tokens_out": reply.get("completion_tokens"),
        "finish_reason": reply.get("finish_reason"),
        "asked": json.dumps(call.get("asked") or {}, ensure_ascii=False)[:_TEXT],
        "messages": _messages(request),
        "said": "\n".join(text for text in said if text)[:_TEXT],
    }


def _messages(request: Any) -> list[tuple[str, str]]:
    if not isinstance(request, dict):
        return []
    found: list[tuple[str, str]] = []
    for field in ("system", "messages", "input", "prompt"):
        value = request.get(field)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                found.append((str(item.get("role", field)), _said(item)))
            elif item is not None:
                found.append((field, str(item)[:_TEXT]))
    return found[:100]


def _said(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str) and set(message) <= {"role", "content"}:
        return content[:_TEXT]
    rest = {key: value for key, value in message.items() if key != "role"}
    return json.dumps(rest, ensure_ascii=False)[:_TEXT]
