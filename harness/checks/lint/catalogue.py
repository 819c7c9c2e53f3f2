"""All rules on an agent, in the order in which a person wants to read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.checks.findings import Finding
from harness.checks.lint import (
    address_rules,
    await_rules,
    call_rules,
    client_rules,
    contract_rules,
    history,
    loop_rules,
    reward_rules,
    shared_rules,
)
from harness.checks.lint.names import Names
from harness.checks.lint.program import Program
from harness.checks.lint.rule import Rule

RULES: tuple[Rule, ...] = (
    *contract_rules.RULES,
    *shared_rules.RULES,
    *await_rules.RULES,
    *reward_rules.RULES,
    *client_rules.RULES,
    *address_rules.RULES,
    *call_rules.RULES,
    *loop_rules.RULES,
    *history.RULES,
)


@dataclass(frozen=True)
class Linted:
    """What the source says.

    Args:
        findings: one for each rule that applies somewhere.
        ignored: how many places a comment took out.
        files: how many were read.
    """

    findings: tuple[Finding, ...]
    ignored: int
    files: int


def lint(program: Program) -> Linted:
    """Hold a program against every rule."""
    names = Names(program)
    findings: list[Finding] = []
    ignored = 0
    for rule in RULES:
        if rule.find is None:
            continue
        every = list(rule.find(names))
        kept = [hit for hit in every if not is_ignored(program, rule.code, str(hit.file), hit.line, hit.end_line)]
        ignored += len(every) - len(kept)
        if (finding := rule.of(kept)) is not None:
            findings.append(finding)
    return Linted(tuple(findings), ignored, len(program.modules))


def is_ignored(program: Program, code: str, file: str, line: int, end_line: int = 0) -> bool:
    """Whether a comment takes a rule out at a place."""
    module = program.module_at(file)
    return module is not None and module.ignores(code, line, end_line)


SOURCE_RULES = sum(rule.find is not None for rule in RULES)


def summary(linted: Linted, rules: int = SOURCE_RULES) -> Finding:
    """The line that says that nothing was found, or how much was looked at."""
    files = f"{linted.files} file{'' if linted.files == 1 else 's'}"
    passed_over = f", {linted.ignored} ignored by comments" if linted.ignored else ""
    found = sum(finding.status in ("fail", "warn") for finding in linted.findings)
    # A tick beside what the same lint has found would say that all is well.
    result = f", {found} of which apply, as said below" if found else ""
    seen = "read alone; a run sees more"
    return Finding(
        id="lint.source",
        title="lint",
        status="pass",
        detail=f"{files} held against {rules} rules{result}{passed_over} ({seen})",
        facts={"files": linted.files, "ignored": linted.ignored},
    )


def merge(seen: Sequence[Finding], linted: Iterable[Finding]) -> list[Finding]:
    """Put what the source says beside what a run showed.

    What both say is said once: as the run showed it, with the source's line where the run has none.
    """
    by_id = {rule.id: rule for rule in RULES}
    wrong = {finding.id for finding in seen if finding.status in ("fail", "warn")}
    merged = list(seen)
    for finding in linted:
        shown_as = [id_ for id_ in by_id[finding.id].seen_as if id_ in wrong] if finding.id in by_id else []
        if not shown_as:
            merged.append(finding)
            continue
        for number, one in enumerate(merged):
            # A literal's own line says more than that of the call it is in.
            if one.id in shown_as and (one.id == finding.id or (one.place is None and not one.stack)):
                merged[number] = one.model_copy(update={"place": finding.place})
    return merged
