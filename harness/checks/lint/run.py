"""One call of ``harness lint``: an agent's source, a training configuration, or both; no server, nothing is run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from harness.agent.source import AgentSource, locate
from harness.checks.findings import Finding, Status
from harness.checks.lint import areal_rules, catalogue, config, program, train_config, verl_rules
from harness.checks.lint.rule import Rule

SCHEMA = 1
"""Raised when a field's meaning changes or one goes; new fields don't count."""

CONFIG_RULES: dict[config.Framework, tuple[Rule, ...]] = {"areal": areal_rules.RULES, "verl": verl_rules.RULES}


class LintReport(BaseModel):
    """What ``harness lint --json`` prints."""

    schema_version: int = Field(default=SCHEMA, description="of this document")
    verb: Literal["lint"] = "lint"
    exit_code: int = 0
    asked: dict[str, Any] = Field(default_factory=dict, description="agent and configuration, as they were named")
    findings: tuple[Finding, ...] = ()
    counts: dict[Status, int] = Field(default_factory=dict)


def lint(agent: str | None, config_file: str | None, folders: Sequence[Path]) -> LintReport:
    """Look at what was named.

    Args:
        agent: as ``AGENT=`` names it; None for none.
        config_file: as ``CONFIG=`` names it; None for none.
        folders: where files and modules are looked for.

    Raises:
        AgentNotFound, AgentUnreadable: the agent isn't there, or isn't Python.
        BadConfig: the configuration isn't there, or can't be read.
    """
    located = locate(agent, folders=folders) if agent else None
    read = config.read(train_config.find(config_file, folders)) if config_file else None
    findings: list[Finding] = []
    if located is not None:
        findings += of_agent(located)
    if read is not None:
        findings += of_config(read)
    counts: dict[Status, int] = {"pass": 0, "fail": 0, "warn": 0, "absent": 0, "skip": 0}
    for finding in findings:
        counts[finding.status] += 1
    return LintReport(
        exit_code=int(counts["fail"] > 0),
        asked={"agent": agent, "config": config_file},
        findings=tuple(findings),
        counts=counts,
    )


def of_agent(agent: AgentSource) -> list[Finding]:
    """What an agent's source says; first that it was looked at."""
    source = program.read(agent)
    if source is None:
        detail = f"{agent.given} has no source that can be read"
        return [Finding(id="lint.source", title="lint", status="skip", detail=detail)]
    linted = catalogue.lint(source)
    return [catalogue.summary(linted), *linted.findings]


def of_config(read: config.Config) -> list[Finding]:
    """What a training configuration says; first that it was looked at."""
    rules = CONFIG_RULES[read.framework]
    findings: list[Finding] = []
    ignored = 0
    for rule in rules:
        every = list(rule.find(read)) if rule.find is not None else []
        kept = [hit for hit in every if not _ignored(read, rule.code, hit.line)]
        ignored += len(every) - len(kept)
        facts = {"code": rule.code}
        findings += [rule.finding(hit.detail, status=hit.status, place=hit.place, facts=facts) for hit in kept]
    name = {"areal": "AReaL", "verl": "verl"}[read.framework]
    passed_over = f", {ignored} ignored by comments" if ignored else ""
    first = Finding(
        id="lint.config",
        title="configuration",
        status="pass",
        detail=f"{read.path.name}, {name}'s, held against {len(rules)} rules{passed_over}",
        facts={"framework": read.framework, "ignored": ignored},
    )
    return [first, *findings]


def _ignored(read: config.Config, code: str, line: int) -> bool:
    codes = read.ignored.get(line)
    return codes is not None and (not codes or code in codes)
