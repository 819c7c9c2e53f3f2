"""What stage 4 gathers: plain data, which ``rules`` judge without AReaL."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from harness.agent.capture import Output
from harness.checks.stage4.frameworks import AREAL, Framework
from harness.openai_api.calls import Call

Stall = Literal["capacity", "still"]
"""capacity: rollouts wait, none runs, and none may be let in. still: some run, and nothing of them moves."""


@dataclass(frozen=True)
class Asked:
    """What was asked of AReaL.

    Args:
        kind: an agent; AReaL's own RLVRWorkflow, or verl's own agent loop, with a reward function.
        name: of the agent or the reward function, as the user wrote it.
        prompts: samples that were submitted.
        group_size: runs of each.
        lines: of the samples in the data set.
        framework: whose controller or agent loop it is.
    """

    kind: Literal["agent", "rlvr", "loop"]
    name: str
    prompts: int
    group_size: int
    lines: tuple[int, ...] = ()
    framework: Framework = AREAL

    @property
    def runs(self) -> int:
        """Runs of all samples."""
        return self.prompts * self.group_size


@dataclass
class Rolled:
    """All that was seen of one batch.

    Args:
        asked: what was asked for.
        events: what the driver said, in order.
        notes: what the observed agents noted in AReaL's workers.
        engine: calls of AReaL's engine to the inference server.
        agents: session and call of each call that an agent made to AReaL's proxy.
        output: what AReaL and its workers printed.
        apart: what AReaL's proxies printed, which goes into files of their own.
        stall: why nothing moved any more; None where it went on to its end.
        verdict: of the hang dump that was taken then.
        early: the reason in a worker's log for which the start was not waited for any longer.
        left: command lines of processes that AReaL left behind.
        exit_status: of the driver; negative for a signal.
        cut: phase in which the time was over.
        interrupted: by Ctrl-C.
    """

    asked: Asked
    events: list[dict[str, Any]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    engine: list[Call] = field(default_factory=list)
    agents: list[tuple[str, Call]] = field(default_factory=list)
    output: Output = field(default_factory=Output)
    apart: str = ""
    stall: Stall | None = None
    verdict: dict[str, Any] | None = None
    early: str = ""
    left: list[str] = field(default_factory=list)
    exit_status: int | None = None
    cut: str = ""
    seconds: float = 0.0
    interrupted: bool = False

    @property
    def log(self) -> str:
        """All that was printed."""
        return f"{self.output.text()}\n{self.apart}"

    def event(self, name: str) -> dict[str, Any] | None:
        """The last event of a name."""
        return next((event for event in reversed(self.events) if event["event"] == name), None)

    def all(self, name: str) -> list[dict[str, Any]]:
        """All events of a name."""
        return [event for event in self.events if event["event"] == name]

    @property
    def trajectories(self) -> list[dict[str, Any]]:
        """What AReaL returned, a sample each."""
        return self.all("trajectory")

    @property
    def phase(self) -> str:
        """How far the driver came."""
        phases = [event["name"] for event in self.all("phase") if event["name"] not in ("end", "template")]
        return phases[-1] if phases else "start"

    @property
    def scored(self) -> list[dict[str, Any]]:
        """Notes of what a reward function returned."""
        return [note for note in self.notes if note["event"] == "scored"]

    @property
    def returned(self) -> list[dict[str, Any]]:
        """Notes of runs that returned."""
        return [note for note in self.notes if note["event"] == "returned"]
