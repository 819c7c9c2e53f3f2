"""What a verdict says where no rule has found a cause."""

from __future__ import annotations

from harness.hang.causes.finding import Cause

CAUSES = (
    Cause("none", title="nothing hangs"),
    Cause(
        "unknown",
        title="not enough evidence",
        means="These stacks don't show who waits for whom.",
        next=(
            "make hang-dump   # every process twice: ranks, driver, workers, servers, children; from outside the stack "
            "MATCH=train.py",
        ),
    ),
)
