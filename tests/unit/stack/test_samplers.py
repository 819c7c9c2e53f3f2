"""Which containers lack a sampler, and which samplers are no use."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from harness.docker_engine import Container
from harness.stack.samplers import Sampler, decide, expected, look

IMAGE = "drydock/dev:1"


def container(service: str, number: int = 1, **more: str) -> Container:
    made = Container(
        id=f"{service}{number}", name=f"drydock-{service}-{number}", service=service, status="running", health="",
        exit_code=0, oom_killed=False, image="drydock/llamacpp:1" if service == "inference" else IMAGE, image_id="",
        started_at="10:00", published_ports=(),
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


def sampler(target: Container, image: str = IMAGE, running: bool = True) -> Sampler:
    name = f"{target.name}-sampler"
    return Sampler(id=name, name=name, target=f"{target.id} {target.started_at}", image=image, running=running)


STACK = [container(name) for name in ("dev", "inference", "ray-head", "ray-worker")] + [container("ray-worker", 2)]


def test_each_container_has_one_and_then_nothing_is_done() -> None:
    assert decide(STACK, [sampler(one) for one in STACK]) == ([], [])


def test_each_replica_wants_its_own() -> None:
    lacking, _ = decide(STACK, [sampler(one) for one in STACK[:-1]])
    assert lacking == [STACK[-1]]


def test_one_that_ended_is_made_again_and_its_remains_go() -> None:
    dead = sampler(STACK[0], running=False)
    assert decide(STACK, [dead, *map(sampler, STACK[1:])]) == ([STACK[0]], [dead])


def test_a_restart_of_its_container_ended_it_whatever_the_engine_still_says() -> None:
    restarted = [container("dev", started_at="11:00"), *STACK[1:]]
    lacking, useless = decide(restarted, [sampler(one) for one in STACK])
    assert (lacking, useless) == ([restarted[0]], [sampler(STACK[0])])


def test_one_of_an_older_image_is_replaced() -> None:
    old = sampler(STACK[1], image="drydock/dev:0")
    assert decide(STACK, [old, sampler(STACK[0]), *map(sampler, STACK[2:])]) == ([STACK[1]], [old])


def test_what_does_not_run_or_is_no_part_of_the_system_has_none() -> None:
    others = [container("host-relay"), container("inference", status="exited"), container("dev", status="paused")]
    assert decide(others, []) == ([], [])


def test_dev_is_told_how_many_to_expect() -> None:
    services = {"ray-worker": 2, "dev": 1, "host-relay": 1, "ray-head": 1}
    assert expected(services) == "dev=1,ray-head=1,ray-worker=2"


def test_one_whose_end_an_engine_was_killed_over_has_no_name() -> None:
    rows: list[dict[str, Any]] = [
        {"Id": "0123456789abcdef", "Names": names, "Labels": {}, "Image": IMAGE, "State": "dead"}
        for names in ([], None, ["/drydock-dev-1-sampler"])
    ]
    client = SimpleNamespace(api=SimpleNamespace(containers=lambda **_: rows))
    assert [one.name for one in look(client, "drydock")] == ["0123456789ab", "0123456789ab", "drydock-dev-1-sampler"]
