"""Recording and replaying within a check: which port an agent talks to, and what was seen of its calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.agent.runner import Trace
from harness.openai_api.calls import Call
from harness.openai_api.http import Endpoint
from harness.openai_api.loopback import Loopback
from harness.openai_api.proxy import RecordingProxy
from harness.openai_api.recording.clean import clean_request
from harness.openai_api.recording.inside import REPLAY
from harness.openai_api.recording.matching import Miss
from harness.openai_api.recording.player import Player, call_of, call_of_miss
from harness.openai_api.recording.store import Recording, Writer, read_run
from harness.runs.redact import Redactor


@dataclass(frozen=True)
class Tapes:
    """What a check records into, or replays from.

    Args:
        writer: keeps the calls of all runs; None where nothing is recorded.
        recording: answers in the server's place; None where there is a server.
    """

    writer: Writer | None = None
    recording: Recording | None = None

    def port(
        self, endpoint: Endpoint, take: Callable[[Call], None], missed: Callable[[Miss], None] = lambda _miss: None
    ) -> Loopback:
        """What the agents of a check talk to.

        Args:
            endpoint: the real server; not used where a recording is replayed.
            take: gets each call that passes the port when it has ended.
            missed: gets each call that was not recorded.
        """
        if self.recording is None:
            return RecordingProxy(endpoint, take=take, recorder=self.writer)
        redactor = Redactor()
        return Player(self.recording, clean=lambda raw: clean_request(raw, redactor), take=take, missed=missed)

    @property
    def environment(self) -> dict[str, str]:
        """What the agent's process is told."""
        return {REPLAY: str(self.recording.folder)} if self.recording is not None else {}

    def answered_inside(self, events: Iterable[dict[str, Any]]) -> tuple[list[Call], list[Miss]]:
        """Calls that were answered within the agent's process, and those that were not recorded.

        Args:
            events: what the process said, in order.
        """
        calls: list[Call] = []
        missed: list[Miss] = []
        recorded: dict[int, dict[int, Call]] = {}
        for event in events:
            if event["event"] == "not-recorded":
                missed.append(Miss.from_dict(event["miss"]))
                calls.append(call_of_miss(missed[-1], len(calls) + 1))
            elif event["event"] == "replayed" and self.recording is not None:
                run = event["run"]
                if run not in recorded:
                    exchanges = read_run(self.recording.folder, run).exchanges
                    recorded[run] = {exchange.number: call_of(exchange) for exchange in exchanges}
                calls.append(dataclasses.replace(recorded[run][event["number"]], number=len(calls) + 1))
        return calls, missed


def outcome(trace: Trace) -> str:
    """How a run ended, in a word or two that are the same each time."""
    if trace.cut is not None:
        return "cut"
    if (raised := trace.raised) is not None:
        return f"raised {raised['type']}"
    if trace.event("returned") is not None:
        return "returned"
    return "ended its process"


def outcome_of(row: Mapping[str, Any]) -> str:
    """The same of one of many runs, as their process says it."""
    if row["outcome"] in ("raised", "exit"):
        return f"raised {row.get('error') or row.get('type') or 'SystemExit'}"
    return str(row["outcome"])


def reward(trace: Trace) -> Any:
    """What was returned, as it is kept in a recording; None where nothing was."""
    returned = trace.event("returned")
    return None if returned is None else returned["reward"]
