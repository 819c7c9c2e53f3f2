"""Helpers of ours that nobody will ever start are removed, and no others; a client whose configuration is broken."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker.errors
import pytest

from harness.docker_engine import SECONDS_TO_START, connect, remove_never_started
from harness.errors import DockerUnreachable

LONG_AGO = SECONDS_TO_START + 5


@dataclass
class Engine:
    """What the engine says of its containers, and which of them it was told to remove."""

    ages: dict[str, float]
    gone: frozenset[str] = frozenset()
    asked: dict[str, Any] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)

    @property
    def api(self) -> Engine:
        return self

    def containers(self, all: bool, filters: dict[str, str]) -> list[dict[str, Any]]:
        assert all
        self.asked = filters
        return [{"Id": name, "Created": int(time.time() - age)} for name, age in self.ages.items()]

    def remove_container(self, name: str, force: bool) -> None:
        assert force
        if name in self.gone:
            raise docker.errors.NotFound(name)
        self.removed.append(name)


@pytest.mark.parametrize(
    ("ages", "removed"), [({}, []), ({"old": LONG_AGO}, ["old"]), ({"old": LONG_AGO, "new": 1}, ["old"])]
)
def test_only_those_that_were_not_started_in_time(ages: dict[str, float], removed: list[str]) -> None:
    engine = Engine(ages)
    remove_never_started(engine, "probe")  # type: ignore[arg-type]
    assert engine.removed == removed
    assert engine.asked == {"status": "created", "label": "dev.drydock.role=probe"}


def test_one_that_went_meanwhile_costs_the_others_nothing() -> None:
    engine = Engine({"gone": LONG_AGO, "old": LONG_AGO}, gone=frozenset({"gone"}))
    remove_never_started(engine, "probe")  # type: ignore[arg-type]
    assert engine.removed == ["old"]


def test_a_broken_login_in_dockers_configuration_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text('{"auths": {"r.example.com": {"auth": "no-base64!"}}}')
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with pytest.raises(DockerUnreachable, match="can't be used") as caught:
        connect()
    assert str(tmp_path / "config.json") in caught.value.what
