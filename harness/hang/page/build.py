"""Renders the page of one verdict."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.hang.grouping import names
from harness.hang.model import Dump
from harness.hang.page import parts, pictures
from harness.hang.verdict import Verdict
from harness.runs.html.page import render
from harness.runs.redact import Redactor

NAME = "report.html"
_TEMPLATES = Path(__file__).parent / "templates"
_SIGNS = {"hung": ("✗", "fail"), "slow": ("⚠", "warn"), "unknown": ("·", "absent")}
_HEADS = {"hung": "Hung", "slow": "Slow, not stuck", "idle": "Idle", "done": "Ended", "unknown": "Unknown"}
# Rows of the table of processes; the grid has them all.
_PROCESSES = 300
_GROUPS = 200


def build(
    verdict: Verdict,
    dump: Dump,
    redactor: Redactor,
    *,
    made: str,
    subject: str = "",
    environment: Mapping[str, Any] | None = None,
) -> str:
    """The page.

    Args:
        verdict: what was decided of the dump.
        dump: has what the verdict leaves out: all threads, both samples, await chains.
        redactor: goes over everything that is shown.
        made: when, as people write it.
        subject: what was dumped.
        environment: versions and the like, as the manifest has them.
    """
    odd = parts.laggard_groups(verdict)
    by_id = parts.first_of_each(dump)
    sign, status = _SIGNS.get(verdict.state, ("✓", "pass"))
    told = {
        "head": _head(verdict),
        "subject": subject,
        "verdict": {
            "laggards": names(verdict.laggards, most=12) if verdict.laggards else "",
            "means": verdict.means if verdict.cause not in ("none", "unknown") else "",
            "evidence": verdict.evidence,
            "elsewhere": verdict.elsewhere if verdict.state in ("hung", "slow") and verdict.cause != "none" else "",
            "next": verdict.next,
            "runners_up": [(cause, f"{score:.2f}") for cause, score in verdict.runners_up.items()],
            "notes": verdict.notes,
        },
        "facts": _facts(verdict, made),
        "pairs": parts.side_by_side(verdict),
        "groups": [
            {
                "number": number,
                "colour": pictures.colour(number),
                "status": "laggard" if number in odd else "others",
                "who": group.who,
                "ids": " ".join(group.ids),
                "marks": ", ".join(filter(None, [group.role, group.progress, group.state and f"state {group.state}"])),
                "wait": group.wait,
                "stack": group.stack,
                "threads": parts.threads_of(group, by_id),
            }
            for number, group in enumerate(verdict.groups[:_GROUPS])
        ],
        "left_out": max(0, len(verdict.groups) - _GROUPS),
        "samples": parts.over_time(verdict, dump),
        "awaits": parts.await_chains(dump),
        "recorder": verdict.recorder,
        "environment": _environment(environment or {}),
    }
    return render(
        "hang.html.j2",
        _TEMPLATES,
        style_of="hang.css",
        script_of="hang.js",
        sign=sign,
        status=status,
        statuses=[(name, many) for name, many in _statuses(verdict, odd) if many],
        grid=pictures.grid(_clean(verdict, redactor)),
        legend=pictures.legend(verdict)[: pictures.COLOURS],
        icicle=pictures.icicle(redactor.data(verdict.tree), "merged stacks, outermost call at the top"),
        processes=redactor.data(_processes(verdict)),
        **redactor.data(told),
    )


def _clean(verdict: Verdict, redactor: Redactor) -> Verdict:
    """Ids and notes are all that the grid shows of anybody's text."""
    for row in verdict.processes:
        if row.note:
            row.note = redactor.text(row.note)
    return verdict


def _head(verdict: Verdict) -> str:
    head = _HEADS[verdict.state]
    if verdict.confidence == "undecided" and len(verdict.candidates) == 2:
        return f"{head}: undecided between {verdict.candidates[0]} and {verdict.candidates[1]}"
    if verdict.cause in ("none", "unknown"):
        return f"{head}: {verdict.title}"
    return f"{head}: {verdict.title}"


def _facts(verdict: Verdict, made: str) -> list[tuple[str, str]]:
    ranks = sum(row.role == "rank" for row in verdict.processes)
    rows = {
        "who": names(verdict.laggards, most=12) if verdict.laggards else "",
        "cause": verdict.cause if verdict.cause not in ("none", "unknown") else "",
        "sure": verdict.confidence,
        "processes": f"{len(verdict.processes)}, {ranks} of them ranks" if ranks else str(len(verdict.processes)),
        "groups": str(len(verdict.groups)),
        "made": made,
    }
    return [(name, value) for name, value in rows.items() if value]


def _statuses(verdict: Verdict, odd: list[int]) -> list[tuple[str, int]]:
    shown = min(len(verdict.groups), _GROUPS)
    named = sum(number < shown for number in odd)
    return [("laggard", named), ("others", shown - named)]


def _processes(verdict: Verdict) -> dict[str, Any]:
    rows = verdict.processes
    if len(rows) > _PROCESSES:
        named = set(verdict.laggards)
        rows = [row for row in rows if row.note or row.id in named][:_PROCESSES]
    table = [
        [
            row.id, row.role, str(row.pid or ""), row.container or row.host, row.state,
            row.note or ("" if row.group is None else verdict.groups[row.group].wait),
        ]
        for row in rows
    ]  # fmt: skip
    return {"rows": table, "all": len(verdict.processes)}


def _environment(environment: Mapping[str, Any], above: str = "") -> list[tuple[str, str]]:
    """Nested keys as one list of lines."""
    rows: list[tuple[str, str]] = []
    for key, value in environment.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping):
            rows += _environment(value, f"{name} › ")
        elif value not in (None, "", [], {}):
            rows.append((name, ", ".join(map(str, value)) if isinstance(value, list) else str(value)))
    return rows[:400]
