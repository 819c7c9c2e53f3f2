"""Two checks held against each other, for a person: as lines, and as a page."""

from __future__ import annotations

from pathlib import Path

from harness import console
from harness.checks.against import Change, Comparison
from harness.checks.page import SIGNS
from harness.runs.html.page import render

_TEMPLATES = Path(__file__).parent / "templates"


def lines(comparison: Comparison) -> None:
    """Print what differs."""
    console.heading(f"{comparison.after} against {comparison.before}")
    for change in comparison.changes:
        tell = console.bad if change.worse else console.ok if change.better else console.note
        tell(f"{change.title} ({change.id}): {statuses(change)}")
        for name, detail in (("before", change.detail_before), ("now", change.detail_after)):
            if detail:
                console.line(f"    {name}: {detail}")
    for moved in comparison.figures:
        ratio = f" (× {moved.ratio:.2f})" if moved.ratio is not None else ""
        console.note(f"{moved.name}: {moved.before:g} → {moved.after:g}{ratio}")
    for name, before, after in comparison.asked:
        console.note(f"asked for, {name}: {before} → {after}")
    for name, before, after in comparison.environment:
        console.note(f"version, {name}: {before} → {after}")
    if not (comparison.changes or comparison.figures or comparison.asked or comparison.environment):
        console.ok("no difference")


def statuses(change: Change) -> str:
    """From what to what."""
    return f"{change.before or 'not there'} → {change.after or 'not there'}"


def page(comparison: Comparison) -> str:
    """The same as a page."""
    kinds = {"worse": 0, "better": 0, "other": 0}
    entries = []
    for change in comparison.changes:
        kind = "worse" if change.worse else "better" if change.better else "other"
        kinds[kind] += 1
        colour = {"worse": "fail", "better": "pass", "other": "skip-status"}[kind]
        entries.append({"change": change, "kind": kind, "colour": colour, "statuses": statuses(change)})
    return render(
        "against.html.j2",
        _TEMPLATES,
        comparison=comparison,
        entries=entries,
        kinds=[(kind, many) for kind, many in kinds.items() if many],
        signs=SIGNS,
        figures=[
            [moved.name, f"{moved.before:g}", f"{moved.after:g}", "" if moved.ratio is None else f"× {moved.ratio:.2f}"]
            for moved in comparison.figures
        ],
    )
