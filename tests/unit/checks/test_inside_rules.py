"""What a run shows of itself from inside its process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.agent.runner import Trace
from harness.agent.source import locate
from harness.checks import inside_rules
from harness.checks.gather import Gathered
from harness.checks.lint import program
from tests.unit.checks.test_stage2_rules import event, frame

LIBRARY = frame("recv", 3, own=False, file="/lib/python3/ssl.py")


def stall(seconds: float, *frames: dict[str, Any], waiting: bool = True) -> dict[str, Any]:
    return {"seconds": seconds, "waiting": waiting, "frames": list(frames)}


def seen(*stalls: dict[str, Any], changed: tuple[dict[str, str], ...] = ()) -> Gathered:
    return Gathered(trace=Trace(events=[event("inside", stalls=list(stalls), changed=list(changed))]))


@pytest.mark.parametrize(
    ("one", "id_", "status"),
    [
        (stall(0.3, frame("run", 5), LIBRARY), "lint.blocking-call", "fail"),
        (stall(0.7, frame("run", 5), waiting=False), "run.computes", "warn"),
    ],
)
def test_a_blocked_event_loop_is_named_with_the_users_line(one: dict[str, Any], id_: str, status: str) -> None:
    [finding] = inside_rules.judge(seen(one, one), None)
    assert (finding.id, finding.status) == (id_, status)
    assert finding.place is not None
    assert finding.place.line == 5
    assert f"{2 * one['seconds']:.2f} s" in finding.detail


@pytest.mark.parametrize(
    "one",
    [
        stall(0.05, frame("run", 5)),
        stall(0.6, frame("run", 5), waiting=False),
        stall(0.3, LIBRARY),
        stall(3.0, frame("run", 5), frame("parse", 9, own=False, file="/lib/openai/_models.py"), waiting=False),
        stall(2.0, frame("run", 5), frame("_load", 1, own=False, file="<frozen importlib._bootstrap>"), waiting=False),
        stall(
            0.3,
            frame("run", 5),
            frame("create", 9, own=False, file="/lib/openai/resources/chat.py"),
            frame("get_type_hints", 2, own=False, file="/lib/python3.11/typing.py"),
        ),
        stall(0.4, frame("run", 5), frame("_execute_child", 1, own=False, file="/lib/python3.11/subprocess.py")),
    ],
    ids=[
        "short",
        "computes a little",
        "nobody of the user's",
        "an SDK's first call",
        "imports",
        "asleep for the interpreter's lock",
        "a child starts",
    ],
)
def test_what_is_not_surely_the_agents_is_not_told(one: dict[str, Any]) -> None:
    assert inside_rules.judge(seen(one), None) == []


def test_waiting_for_what_a_child_does_is_told() -> None:
    below = (
        frame("_execute_child", 1, own=False, file="/lib/subprocess.py"),
        frame("wait", 2, own=False, file="/lib/x.py"),
    )
    [finding] = inside_rules.judge(seen(stall(0.4, frame("run", 5), *below)), None)
    assert finding.id == "lint.blocking-call"


def test_state_that_a_run_leaves_is_told_with_its_values() -> None:
    [finding] = inside_rules.judge(seen(changed=({"name": "turn", "before": "0", "after": "3"},)), None)
    assert (finding.id, finding.status) == ("lint.state-on-self", "warn")
    assert "self.turn from 0 to 3" in finding.detail


def test_a_comment_takes_both_out(tmp_path: Path) -> None:
    file = tmp_path / "my_agent.py"
    file.write_text(
        "class A:\n"
        "    async def run(self, data, **kwargs):\n"
        "        self.turn += 1  # drydock: ignore[state-on-self]\n"
        "        wait()  # drydock: ignore\n"
        "        wait(\n"
        "            1,\n"
        "        )  # drydock: ignore[blocking-call]\n"
        "        wait()\n"
    )
    source = program.read(locate(f"{file}:A", folders=[tmp_path]))
    changed = ({"name": "turn", "before": "0", "after": "1"},)
    assert inside_rules.judge(seen(stall(1.0, frame("run", 4, file=str(file))), changed=changed), source) == []
    assert inside_rules.judge(seen(stall(1.0, frame("run", 5, file=str(file)))), source) == []
    for line in (2, 8):
        assert inside_rules.judge(seen(stall(1.0, frame("run", line, file=str(file)))), source) != []


def test_a_run_that_said_nothing_of_it_is_judged_for_nothing() -> None:
    assert inside_rules.judge(Gathered(), None) == []
