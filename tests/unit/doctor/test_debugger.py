"""What keeps people from debugging, decided from what processes say of themselves."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

from harness.breakpoints.fitness import Process, Scene
from harness.breakpoints.inside import fitness
from harness.breakpoints.model import Worker
from harness.breakpoints.trial import Trial
from harness.doctor.findings import Finding
from harness.doctor.topics.debugger_rules import SAID, decide, decide_trial

FINE: dict[str, Any] = {
    "python": "3.11.2", "ray": "2.60.0", "debugpy": "1.8.22", "debugpy_at": "/opt/venv/debugpy/__init__.py",
    "compiled": True, "switches": {"RAY_DEBUG": "1"}, "hook": "ray", "session": "session_1", "log_points": 0,
    "debugger": {"address": None, "attached": False, "by": "", "listens": None},
    "files": [["/workspace/reward.py", 17]], "said": [],
}  # fmt: skip


def process(pid: int = 7, *, problem: str = "", **says: Any) -> Process:
    """A worker that is fine except for what is given."""
    worker = Worker(ip="172.18.0.3", pid=pid, actor="Scorer")
    return Process(worker, None if problem else {**FINE, **says}, problem)


def scene(*processes: Process, **other: Any) -> Scene:
    """A cluster that is fine except for what is given."""
    made = Scene(
        "http://ray-head:8265", session="session_1", here=FINE, relay="", processes=processes or (process(),),
        files={"/workspace/reward.py": 17},
    )  # fmt: skip
    return replace(made, **other)


def wrong(found: list[Finding]) -> list[Finding]:
    return [finding for finding in found if finding.sign in ("bad", "warn")]


def test_nothing_is_wrong_where_nothing_is() -> None:
    found = decide(scene(process(1), process(2)))
    assert not wrong(found)
    assert any("would stop in all 2 workers" in finding.text for finding in found)


def listening(host: str = "172.18.0.3", by: str = "/x/ray/util/debugpy.py:61", **more: Any) -> dict[str, Any]:
    return {"address": [host, 21007], "attached": False, "by": by, "listens": True, **more}


@pytest.mark.parametrize(
    ("says", "sign", "said"),
    [
        ({"python": "3.12.1"}, "bad", "Python is 3.12.1 in Scorer"),
        ({"ray": "2.59.0"}, "bad", "Ray is 2.59.0 in Scorer"),
        ({"debugpy": "1.8.20"}, "bad", "debugpy is 1.8.20 in Scorer"),
        ({"debugpy": None}, "bad", "can't be imported"),
        ({"debugpy": "unknown", "debugpy_at": "/workspace/debugpy.py"}, "bad", "(/workspace/debugpy.py)"),
        ({"debugpy": "1.6.7"}, "bad", "older than 1.8.0"),
        # Ray compares versions as texts.
        ({"debugpy": "1.10.0"}, "bad", "refused by Ray"),
        ({"switches": {"RAY_DEBUG": "0"}}, "bad", "RAY_DEBUG=0"),
        ({"switches": {"RAY_DEBUG": "legacy"}}, "bad", "RAY_DEBUG=legacy"),
        ({"switches": {"RAY_DEBUG_POST_MORTEM": "true"}}, "bad", "RAY_DEBUG_POST_MORTEM=true"),
        ({"switches": {"RAY_DEBUG_POSTMORTEM": "1"}}, "bad", "nobody reads that name"),
        ({"hook": "IPython.embed"}, "bad", "belongs to IPython.embed"),
        *(({"said": [line]}, "bad", "Scorer (172.18.0.3 7)") for line in SAID),
        ({"files": [["/tmp/ray/x/_ray_pkg_1f/reward.py", 3]]}, "bad", "a copy that Ray made"),
        ({"files": [["/app/reward.py", 3]]}, "bad", "it isn't here"),
        ({"files": [["/workspace/reward.py", 18]]}, "bad", "another content"),
        ({"debugger": listening("127.0.0.1", "/workspace/a.py:3")}, "bad", "as /workspace/a.py:3 asked"),
        ({"debugger": listening(listens=False)}, "bad", "port 21007"),
        ({"debugger": listening("0.0.0.0", "/workspace/a.py:3")}, "note", "calls debugpy.listen() itself"),
        ({"debugger": listening(attached=True)}, "note", "A debugger is attached"),
        ({"compiled": False}, "warn", "without its compiled parts"),
        ({"switches": {"PYDEVD_USE_CYTHON": "NO"}}, "warn", "without its compiled parts"),
        ({"log_points": 2}, "note", "2 log points"),
        ({"switches": {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}}, "warn", "TORCH_DISTRIBUTED_DEBUG=DETAIL"),
    ],
)
def test_each_fault_is_told_with_who_has_it(says: dict[str, Any], sign: str, said: str) -> None:
    found = decide(scene(process(1), process(7, **says)))
    fitting = [finding for finding in found if said in finding.text]
    assert [finding.sign for finding in fitting] == [sign], found
    assert "172.18.0.3 7" in fitting[0].text
    assert "172.18.0.3 1)" not in " ".join(finding.text for finding in found)
    assert sign == "note" or (fitting[0].consequence and fitting[0].mend)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"problem": "the dashboard at http://x:1 doesn't answer: refused"}, "doesn't answer"),
        ({"problem": "the dashboard at http://x:1 refuses: it wants another token"}, "another token"),
        ({"relay": "the dashboard at http://127.0.0.1:8265 doesn't answer: refused"}, "The relay to it in dev"),
        ({"strangers": ((9, "session_2"),)}, "PID 9 here has joined another cluster"),
        ({"processes": (process(problem="it doesn't answer"),)}, "can't be asked: it doesn't answer"),
    ],
)
def test_what_keeps_everybody_out(other: dict[str, Any], said: str) -> None:
    assert [said in finding.text for finding in wrong(decide(scene(**other)))] == [True]


def test_a_cluster_without_programs_is_no_fault() -> None:
    found = decide(replace(scene(), processes=()))
    assert not wrong(found)
    assert any("No worker or driver runs" in finding.text for finding in found)


def test_a_shared_fault_is_told_once() -> None:
    found = wrong(decide(scene(*(process(pid, debugpy=None) for pid in range(9)))))
    assert len(found) == 1
    assert "and 6 more" in found[0].text


def test_a_debugger_that_does_not_work_at_all() -> None:
    assert decide_trial(Trial("", 1.0))[0].sign == "ok"
    assert decide_trial(Trial("debugpy can't be started", 1.0))[0].sign == "bad"


def test_this_process_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    says = fitness.of_this_process()
    assert says["debugpy"] not in (None, "unknown")
    assert [__file__] == [name for name, _ in says["files"] if name == __file__]
    assert not any("site-packages" in name for name, _ in says["files"])
    monkeypatch.setitem(sys.modules, "debugpy", None)
    assert fitness.of_this_process()["debugpy"] is None
    monkeypatch.setattr(sys, "breakpointhook", print)
    assert fitness.of_this_process()["hook"] == "builtins.print"
