"""Which containers are meant, why one can't be sampled, and whom `dev` misses."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from harness.docker_engine import Container
from harness.errors import BadSetting
from harness.hang.ways.containers import choose, why_not
from harness.hang.ways.remote import named
from harness.hang.ways.samplers import missing, read_expected, service_of
from harness.processes.sampling.dumper import DENIED
from harness.processes.sampling.model import NodeAnswer, ProcessEntry, SampleEntry, SampleRequest

EXPECTED = {"dev": 1, "ray-head": 1, "ray-worker": 2}


def container(name: str, status: str = "running", **more: object) -> Container:
    made = Container(
        id=hashlib.sha256(name.encode()).hexdigest(), name=name, service="", status=status, health="", exit_code=0,
        oom_killed=False, image="", image_id="", started_at="", published_ports=(),
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


THERE = [container("train-0"), container("train-1"), container("train-2", "exited"), container("other", "paused")]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (["train-0"], ["train-0"]),
        (["train-*"], ["train-0", "train-1"]),
        (["train-2"], ["train-2"]),
        (["*"], ["train-0", "train-1", "other"]),
        (["other", "train-0", "other"], ["other", "train-0"]),
        ([THERE[1].id[:12]], ["train-1"]),
    ],
)
def test_names_ids_and_patterns(wanted: list[str], found: list[str]) -> None:
    assert [one.name for one in choose(THERE, wanted)] == found


@pytest.mark.parametrize("wanted", [["train"], ["train-0", "nobody"], ["nobody-*"], ["../train-0"], ["0"]])
def test_a_name_of_none_tells_who_is_there(wanted: list[str]) -> None:
    with pytest.raises(BadSetting) as error:
        choose(THERE, wanted)
    assert "train-0" in error.value.mend


def test_why_one_can_not_be_sampled() -> None:
    assert why_not(container("a")) == ""
    assert "docker unpause a" in why_not(container("a", "paused"))
    assert "out of memory" in why_not(container("a", "exited", oom_killed=True, exit_code=137))
    assert "exit code 3" in why_not(container("a", "exited", exit_code=3))
    assert "created" in why_not(container("a", "created"))


@pytest.mark.parametrize(
    ("alive", "dead", "absent"),
    [
        (["p-dev-1", "p-ray-head-1", "p-ray-worker-1", "p-ray-worker-2"], [], []),
        # Left from a container that is not wanted any more.
        (["p-dev-1", "p-ray-head-1", "p-ray-worker-1", "p-ray-worker-3"], ["p-ray-worker-2"], []),
        (["p-dev-1", "p-ray-head-1", "p-ray-worker-1"], ["p-ray-worker-2"], ["p-ray-worker-2"]),
        (["p-dev-1", "p-ray-head-1"], ["p-ray-worker-1"], ["p-ray-worker-1", "ray-worker"]),
        (["p-ray-head-1", "p-ray-worker-1", "p-ray-worker-2"], [], ["dev"]),
    ],
)
def test_whom_dev_misses(alive: list[str], dead: list[str], absent: list[str]) -> None:
    assert missing(EXPECTED, alive, dead) == absent


def test_the_service_of_a_container_by_its_name() -> None:
    assert service_of("my-ray-head-dev-1", EXPECTED) == "dev"
    assert service_of("p-ray-worker-12", EXPECTED) == "ray-worker"
    assert service_of("stranger", EXPECTED) == ""
    assert read_expected("dev=1,ray-worker=2,=3,x=y,") == {"dev": 1, "ray-worker": 2}


def test_when_nothing_can_be_read_the_settings_to_look_at_are_named() -> None:
    denied = ProcessEntry(pid=1, samples=[SampleEntry(error=DENIED)])
    fine = ProcessEntry(pid=2, samples=[SampleEntry(file="2.json")])
    [note] = named(NodeAnswer(processes=[denied]), "box", SampleRequest()).notes
    assert "docker inspect" in note
    assert "{{.SecurityOptions}}" in note
    assert named(NodeAnswer(processes=[denied, fine]), "box", SampleRequest()).notes == []


def test_among_many_the_likest_name_comes_first_and_the_rest_is_counted() -> None:
    there = [
        *(container(f"bench-machine{number}") for number in range(12)),
        container("train-0"),
        container("dev-sampler"),
    ]
    with pytest.raises(BadSetting) as error:
        choose(there, ["trian-0"])
    near, listed = error.value.mend.splitlines()
    assert near.startswith("make hang-dump CONTAINERS=train-0 ")
    assert listed.startswith("docker ps   # those that run: train-0, ")
    assert listed.endswith(" and 5 more")
    assert "sampler" not in listed
