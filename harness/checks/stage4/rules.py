"""Judgements on a batch that went through a framework's own rollout; pure.

Each rule looks at what was gathered and says at most one thing, or one thing a kind. A rule that has nothing to look
at, because it ended before, says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from harness.agent.source import AgentSource
from harness.checks.findings import Finding
from harness.checks.stage4 import course_rules, slurm_rules, trajectory_rules, verl_rules
from harness.checks.stage4.data import Rolled

Rule = Callable[[Rolled, AgentSource | None], Iterator[Finding]]

# In the order in which a person wants to read them.
RULES: tuple[Rule, ...] = (
    slurm_rules.rendered,
    course_rules.started,
    verl_rules.samples,
    course_rules.whole,
    course_rules.stalled,
    course_rules.importable,
    course_rules.failures,
    course_rules.calls,
    trajectory_rules.rewards,
    trajectory_rules.shapes,
    trajectory_rules.logprobs,
    trajectory_rules.round_trip,
    trajectory_rules.tokenizer,
    trajectory_rules.conversation,
    trajectory_rules.versions,
    trajectory_rules.template,
    course_rules.left,
)


def judge(rolled: Rolled, agent: AgentSource | None) -> list[Finding]:
    """All findings on a batch."""
    return [finding for rule in RULES for finding in rule(rolled, agent)]
