"""Whom a dump is about where nobody, or somebody by name, was named."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from harness.cli import hang_dump
from harness.errors import NobodyAnswered, NothingToSample
from harness.hang.ways.containers import ContainerWay
from harness.hang.ways.here import Here
from harness.processes.sampling import find as finding
from harness.processes.sampling.find import Seen
from harness.processes.sampling.model import NodeAnswer, ProcessEntry, SampleRequest
from harness.processes.sampling.roles import is_supervisor
from harness.settings import load_settings


def _seen(pid: int, *arguments: str) -> Seen:
    stat: Any = SimpleNamespace(pid=pid, ppid=1, is_zombie=False, name="python", start_ticks=pid)
    return Seen(stat, list(arguments), python=True)


def test_what_make_run_follows_is_meant_whatever_it_looks_like(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.processes.sampling.facts.pid_namespace", lambda *_: 0)
    monkeypatch.setattr("harness.processes.sampling.facts.environ", lambda _: {})
    monkeypatch.setattr("harness.processes.sampling.facts.libraries", lambda _: frozenset())
    seen = {7: _seen(7, "python", "agents_wait.py"), 8: _seen(8, "python", "other.py")}
    chosen, left_out = finding._choose(SampleRequest(), seen, {7})
    assert chosen == {7}
    assert left_out == ["python other.py"]


def test_what_the_gateway_starts_is_a_server_whatever_it_is_called() -> None:
    gateway, engine = _seen(7, "/opt/gateway/bin/python", "-m", "gateway"), _seen(8, "python3", "-m", "mine.server")
    engine.stat.ppid = 7  # type: ignore[misc]
    assert finding._role(engine, {7: gateway, 8: engine}) == "server"
    assert finding._role(engine, {7: _seen(7, "python", "-m", "gateway.healthcheck"), 8: engine}) == ""
    assert finding._role(engine, {8: engine}) == ""


def test_who_follows_a_command_is_known() -> None:
    assert is_supervisor(["/opt/venv/bin/python", "/opt/venv/bin/harness", "supervise"])
    assert not is_supervisor(["/opt/venv/bin/python", "/opt/venv/bin/harness", "check"])
    assert not is_supervisor(["python", "supervise.py", "supervise"])


class _Asked(ContainerWay):
    """A container in which nothing looks like training."""

    def __init__(self, *, named: bool) -> None:
        target: Any = SimpleNamespace(name="c", status="running", running=True)
        super().__init__(None, target, "image", named=named)

    def _answer(self, request: SampleRequest, deadline: float) -> NodeAnswer:
        if request.everything:
            return NodeAnswer(host="c", processes=[ProcessEntry(pid=7)])
        return NodeAnswer(host="c", left_out=["python worker.py"])


@pytest.mark.parametrize("named", [True, False])
def test_whoever_names_a_container_means_what_is_in_it(named: bool) -> None:
    answer = _Asked(named=named).sample(SampleRequest(), time.monotonic() + 1)
    assert bool(answer.processes) == named


def test_that_no_stack_is_up_is_said_first(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(hang_dump, "in_container", lambda: False)
    hang_dump._say_where([Here()], load_settings(environ={}))
    assert "whole machine" in capsys.readouterr().out
    hang_dump._say_where([Here()], load_settings(environ={"PIDS": "7"}))
    hang_dump._say_where([_Asked(named=False)], load_settings(environ={}))
    assert capsys.readouterr().out == ""


def test_proposed_commands_name_what_is_there() -> None:
    error = NothingToSample.of("PIDS=7", ["python /workspace/agents_wait.py --x"], ["trainer-0"])
    assert "make hang-dump MATCH=agents_wait.py " in error.mend
    assert "make hang-dump CONTAINERS=trainer-0 " in error.mend
    assert "1234" not in NothingToSample.of("", []).mend


def test_where_not_all_could_be_asked_nobody_is_blamed_for_it() -> None:
    error = NobodyAnswered.of("PIDS=7", {"trainer-0": "the connection to Docker broke"})
    assert (error.exit_code, NothingToSample.of("PIDS=7", []).exit_code) == (3, 2)
    assert "PIDS=7" in error.what
    assert error.consequence == "trainer-0 couldn't be asked: the connection to Docker broke"


def test_who_was_left_out_is_named_with_ones_own_and_the_newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.processes.sampling.facts.pid_namespace", lambda *_: 0)
    monkeypatch.setattr("harness.processes.sampling.facts.environ", lambda _: {})
    monkeypatch.setattr("harness.processes.sampling.facts.libraries", lambda _: frozenset())
    monkeypatch.setattr(finding, "_of_another", lambda pid: pid == 30)
    seen = {pid: _seen(pid, "python", f"job{pid}.py") for pid in (10, 20, 30)}
    _, left_out = finding._choose(SampleRequest(), seen, set())
    assert left_out == ["python job20.py", "python job10.py", "python job30.py"]
