"""Who is paused, under which number, and what suffers from it."""

from __future__ import annotations

from typing import Any

import pytest

from harness.breakpoints.decide import chosen, key_of, numbered, paused
from harness.breakpoints.model import Paused, Worker
from harness.breakpoints.show import place
from harness.breakpoints.started import begun_under_debugpy, listens_for, standing_at
from harness.breakpoints.terminal.prompt import parsed_break
from harness.breakpoints.trace import matching, nobody
from harness.errors import NothingPaused, UsageError

THREAD = {"file": "/workspace/reward.py", "line": 7, "function": "compute", "thread": "MainThread", "since": 5.0}


def worker(pid: int = 1, **more: Any) -> Worker:
    return Worker(ip="192.0.2.1", pid=pid, worker_id=f"w{pid}", **more)


def lines(*found: Worker) -> list[Paused]:
    return paused(found, numbered(found, {}))


def test_every_thread_that_waits_is_a_line() -> None:
    found = lines(worker(1, paused_threads=2, status={"paused": [THREAD, {**THREAD, "line": 9}]}), worker(2))
    assert [(line.number, line.line, line.state) for line in found] == [(1, 7, "waits"), (1, 9, "waits")]


def test_one_that_cannot_be_asked_is_still_named() -> None:
    found = lines(worker(1, paused_threads=1, problem="no hook"))
    assert [(line.file, line.since) for line in found] == [("", None)]


def test_one_that_a_debugger_holds() -> None:
    found = lines(worker(1, status={"paused": [], "debugger": {"attached": True}}))
    assert [line.state for line in found] == ["attached"]


def test_one_that_waits_before_its_first_line() -> None:
    (line,) = lines(Worker("127.0.0.1", 7, role="process", debugger_port=5688, task="areal.infra.rpc", begins=True))
    assert (line.state, place(line), line.worker.name) == ("waits", "before its first line", "areal.infra.rpc")


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (
            "python3 -Xfrozen_modules=off -m debugpy --listen 127.0.0.1:5688 --wait-for-client"
            " --configure-subProcess false -m areal.infra.rpc.rpc_server --port 1",
            ("127.0.0.1", 5688, "areal.infra.rpc.rpc_server"),
        ),
        ("python -m debugpy --listen 5678 --wait-for-client train.py", ("127.0.0.1", 5678, "train.py")),
        ("python -m debugpy --listen 5678 train.py", None),
        ("python -m debugpy --listen", None),
        ("python -m debugpy --listen here --wait-for-client", None),
        ("grep debugpy --listen 5678 --wait-for-client x", None),
        ("debugpy", None),
        ("", None),
    ],
)
def test_a_command_that_waits_for_a_debugger(command: str, found: tuple[str, int, str] | None) -> None:
    assert begun_under_debugpy(command.split()) == found


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (
            "/venv/bin/python /venv/lib/python3.11/site-packages/debugpy/adapter --for-server 42763 --host 127.0.0.1"
            " --port 5688 --server-access-token 0a --adapter-access-token 0b",
            ("127.0.0.1", 5688),
        ),
        ("python /v/debugpy/adapter --for-server 4 --port 5688 --host 0.0.0.0", ("127.0.0.1", 5688)),
        ("python /v/debugpy/adapter --port 5688", None),
        ("grep debugpy/adapter --for-server", None),
        ("", None),
    ],
)
def test_what_debugpy_starts_for_a_process_that_listens(command: str, found: tuple[str, int] | None) -> None:
    assert listens_for(command.split()) == found


def test_who_waits_for_a_client_in_code_of_its_own_stands_where_it_called_it() -> None:
    def frame(name: str, file: str, line: int = 1) -> dict[str, object]:
        return {"name": name, "filename": file, "line": line}

    server = [frame("wait", "threading.py"), frame("wait_for_client_cls.__call__", "/v/debugpy/server/api.py"),
              frame("_api.<locals>.apply.<locals>.wrapper", "/v/debugpy/public_api.py")]  # fmt: skip
    waits = {"frames": [*server, frame("setup", "/w/train.py", 7), frame("<module>", "/w/train.py", 30)]}
    runs = {"frames": [frame("step", "/w/train.py"), frame("<module>", "/w/train.py", 31)]}
    named_alike = {"frames": [frame("recv", "/w/net.py"), frame("wait_for_client", "/w/net.py", 3), frame("m", "x.py")]}
    assert standing_at([runs, waits]) == frame("setup", "/w/train.py", 7)
    assert standing_at([runs, named_alike, {"frames": []}, {}]) is None
    there = Worker("127.0.0.1", 7, debugger_port=5688, task="train.py", begins=True, place=("/w/train.py", 7, "setup"))
    (line,) = lines(there)
    assert (line.state, place(line)) == ("waits", "/w/train.py:7 setup")


def test_numbers_stay_and_those_that_are_gone_become_free() -> None:
    one, two, three = worker(1), worker(2), worker(3)
    before = numbered([one, two], {})
    assert numbered([two, three], before) == {key_of(two): 2, key_of(three): 1}


@pytest.mark.parametrize(
    ("role", "status", "said"),
    [
        ("worker", {"paused": [{**THREAD, "event_loop": True}]}, "event loop stands still"),
        ("driver", {"paused": [THREAD]}, "nothing new is submitted"),
        (
            "worker",
            {"paused": [THREAD], "world_size": 4, "backend": "gloo", "collective_timeout": 1800.0},
            "3 other ranks of torch.distributed (gloo) give up after 30 min",
        ),
        ("worker", {"paused": [THREAD], "frameworks": ["areal"]}, "request_timeout"),
        ("worker", {"paused": [THREAD], "frameworks": ["verl"]}, "nccl_timeout"),
    ],
)
def test_what_suffers_is_said(role: str, status: dict[str, Any], said: str) -> None:
    assert said in " ".join(lines(worker(1, role=role, status=status))[0].delays)


def test_which_one_is_meant() -> None:
    found = lines(worker(1, paused_threads=1), worker(2, paused_threads=1))
    assert chosen(found, 2).worker.pid == 2
    assert chosen(found, 0, pid=1).worker.pid == 1
    assert chosen(found[:1], 0).worker.pid == 1
    for session, pid in ((0, 0), (3, 0), (0, 9)):
        with pytest.raises(NothingPaused):
            chosen(found, session, pid)
    with pytest.raises(NothingPaused):
        chosen([], 1)


def test_which_are_traced() -> None:
    actor = worker(1, actor="Reward", actor_name="r0")
    driver = worker(2, role="driver")
    assert matching([actor, driver]) == [actor, driver]
    assert matching([actor, driver], actor="Reward") == matching([actor, driver], actor="r0") == [actor]
    assert matching([actor, driver], role="driver") == [driver]
    assert matching([actor], actor="Critic") == []
    said = nobody([actor], actor="Critic")
    assert ("Critic" in said.what, "Reward" in said.consequence) == (True, True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("42", ("here.py", 42, "", "", "")),
        ("reward.py:42 if reward < -1", ("reward.py", 42, "reward < -1", "", "")),
        ("42 hit 5", ("here.py", 42, "", "5", "")),
        ("42 if a == 'if b' hit 3 log if {a} hit", ("here.py", 42, "a == 'if b'", "3", "if {a} hit")),
        ("42 log {reward}", ("here.py", 42, "", "", "{reward}")),
    ],
)
def test_breakpoints_as_they_are_typed(text: str, expected: tuple[str, int, str, str, str]) -> None:
    point = parsed_break(text, lambda name: name or "here.py")
    assert (point.file, point.line, point.condition, point.hit_count, point.log) == expected


@pytest.mark.parametrize("text", ["reward.py", "x", "42 nonsense", "42 if (", "42 log "])
def test_what_is_no_breakpoint(text: str) -> None:
    with pytest.raises(UsageError):
        parsed_break(text, lambda name: name)
