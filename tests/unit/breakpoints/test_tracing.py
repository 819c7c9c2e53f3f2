"""Log points inside a process: they note what happens, change nothing, and leave nothing behind."""

from __future__ import annotations

import importlib.util
import itertools
import json
import socket
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.breakpoints.inside import tracing

PROGRAM = """\
def score(prompt, scale=2):
    reward = len(prompt) * -0.5
    for _ in range(scale):
        reward -= 1
    return reward


def outer(scale):
    def inner(x):
        y = x * scale
        return y

    return inner


class Model:
    def forward(self, x):
        doubled = x * 2
        return super().__repr__() and doubled


async def rollout(n):
    total = n + 1
    return total


def tokens(n):
    for i in range(n):
        yield i * 10
"""


class Conversation:
    """The other end of a trace, in this process."""

    def __init__(self, file: str, line: int, log: str, n: int, condition: str = "") -> None:
        self.end, theirs = socket.socketpair()
        self.lines = self.end.makefile("r")
        question = {"file": file, "line": line, "log": log, "n": n, "if": condition}
        self.thread = threading.Thread(target=self._serve, args=(theirs, question))
        self.thread.start()
        self.armed: dict[str, Any] = self.next()["armed"]

    @staticmethod
    def _serve(theirs: socket.socket, question: dict[str, Any]) -> None:
        with theirs:
            try:
                tracing.serve(theirs, question)
            except OSError:
                pass  # the other end hung up

    def next(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.lines.readline())
        return found

    def rest(self) -> list[dict[str, Any]]:
        self.thread.join(10)
        assert not self.thread.is_alive(), "there were fewer hits than it waits for"
        return [json.loads(line) for line in self.lines]

    def hang_up(self) -> None:
        self.end.shutdown(socket.SHUT_RDWR)
        self.thread.join(10)
        assert not self.thread.is_alive()


_numbers = itertools.count()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[ModuleType]:
    """The program above as a module of its own."""
    name = f"traced_{next(_numbers)}"
    path = tmp_path / f"{name}.py"
    path.write_text(textwrap.dedent(PROGRAM))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name]


def file_of(module: ModuleType) -> str:
    return f"{module.__name__}.py"


def hits(messages: list[dict[str, Any]]) -> list[str]:
    return [message["hit"] for message in messages if "hit" in message]


def test_a_line_is_noted_and_the_result_is_the_same(program: ModuleType) -> None:
    conversation = Conversation(file_of(program), 5, "{prompt} {reward:.1f}", 2)
    assert conversation.armed["functions"] == 1
    assert [program.score("ab"), program.score("abc"), program.score("abcd")] == [-3.0, -3.5, -4.0]
    messages = conversation.rest()
    assert hits(messages) == ["ab -3.0", "abc -3.5"]
    assert messages[-1]["end"]["hits"] == 2


def test_a_condition_decides(program: ModuleType) -> None:
    conversation = Conversation(file_of(program), 5, "{prompt}", 1, "reward < -3.2")
    program.score("ab"), program.score("abc")
    messages = conversation.rest()
    assert hits(messages) == ["abc"]
    assert messages[-1]["end"]["passed"] == 2


def test_a_condition_that_raises_is_told_and_the_program_goes_on(program: ModuleType) -> None:
    conversation = Conversation(file_of(program), 5, "{prompt}", 1, "nope > 1")
    for _ in range(10):
        assert program.score("ab") == -3.0
    message = conversation.next()
    assert "NameError" in message["failed"]
    conversation.hang_up()


def test_a_line_in_a_loop_counts_each_time(program: ModuleType) -> None:
    conversation = Conversation(file_of(program), 4, "{reward}", 10)
    program.score("", 3)
    assert [conversation.next()["hit"] for _ in range(3)] == ["-0.0", "-1.0", "-2.0"]
    conversation.hang_up()


def test_closures_made_before_and_after(program: ModuleType) -> None:
    before = program.outer(3)
    conversation = Conversation(file_of(program), 11, "{y}", 2)
    after = program.outer(5)
    assert (before(2), after(2)) == (6, 10)
    assert hits(conversation.rest()) == ["6", "10"]
    assert (before(2), after(2), program.outer(7)(2)) == (6, 10, 14)


def test_a_method_that_calls_super(program: ModuleType) -> None:
    conversation = Conversation(file_of(program), 19, "{doubled}", 1)
    assert program.Model().forward(4) == 8
    assert hits(conversation.rest()) == ["8"]


def test_coroutines_and_generators(program: ModuleType) -> None:
    import asyncio

    conversation = Conversation(file_of(program), 24, "{total}", 1)
    assert asyncio.run(program.rollout(4)) == 5
    assert hits(conversation.rest()) == ["5"]
    conversation = Conversation(file_of(program), 29, "{i}", 2)
    assert list(program.tokens(3)) == [0, 10, 20]
    assert hits(conversation.rest()) == ["0", "1"]


def test_every_function_has_its_own_code_again(program: ModuleType) -> None:
    before = (program.score.__code__, program.Model.forward.__code__)
    conversation = Conversation(file_of(program), 5, "{prompt}", 100)
    conversation.hang_up()
    assert (program.score.__code__, program.Model.forward.__code__) == before
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None:
        assert all(monitoring.get_tool(tool) is None for tool in (3, 4))


def test_two_log_points_at_once(program: ModuleType) -> None:
    one = Conversation(file_of(program), 5, "one {prompt}", 1)
    two = Conversation(file_of(program), 19, "two {doubled}", 1)
    program.score("a"), program.Model().forward(1)
    assert (hits(one.rest()), hits(two.rest())) == (["one a"], ["two 2"])


def test_an_expression_that_comes_through_the_line_itself(program: ModuleType) -> None:
    conversation = Conversation(file_of(program), 5, "{score('xx')}", 1)
    assert program.score("a") == -2.5
    assert hits(conversation.rest()) == ["-3.0"]


def test_lines_without_code_and_files_that_are_not_there(program: ModuleType) -> None:
    conversation = Conversation(file_of(program), 7, "", 1)
    assert conversation.armed["functions"] == 0
    assert conversation.armed["near"]
    conversation.hang_up()
    conversation = Conversation("nobody_has_this.py", 7, "", 1)
    assert conversation.armed["files"] == []
    conversation.hang_up()


@pytest.mark.skipif(hasattr(sys, "monitoring"), reason="needs no source")
def test_a_file_that_was_changed_is_refused(program: ModuleType) -> None:
    path = Path(str(program.__file__))
    path.write_text("# a line more\n" + path.read_text())
    conversation = Conversation(file_of(program), 5, "", 1)
    assert conversation.armed["functions"] == 0
    conversation.hang_up()
    assert program.score("ab") == -3.0
