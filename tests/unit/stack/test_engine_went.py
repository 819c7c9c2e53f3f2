"""`docker exec` ends with 255 and without a word when its connection breaks off; who typed the verb is told why."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import docker.errors
import pytest
import requests

from harness.errors import DockerUnreachable, StackDown
from harness.stack.dev import _if_the_engine_went
from tests.unit.stack.test_samplers import container


def client(answer: Any) -> Any:
    def get(_: str) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(status=answer)

    return SimpleNamespace(containers=SimpleNamespace(get=get))


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (requests.exceptions.ConnectionError("refused"), DockerUnreachable),
        (requests.exceptions.ReadTimeout("silent"), DockerUnreachable),
        (docker.errors.NotFound("gone"), StackDown),
        ("exited", StackDown),
    ],
)
def test_what_went_is_said(answer: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="while the command ran"):
        _if_the_engine_went(client(answer), container("dev"))


def test_a_command_may_end_with_that_code_itself() -> None:
    _if_the_engine_went(client("running"), container("dev"))
