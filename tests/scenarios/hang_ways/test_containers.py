"""Containers that Drydock did not start: whatever they lack, they are sampled; whatever happens to them, it is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.scenarios.hang_ways.conftest import Boxes, dump, probes
from tests.support.harness import CLONE, HARNESS, Stack, docker, own_project, wait_for

pytestmark = pytest.mark.docker

RANK = ("--env", "WORLD_SIZE=2", "--env", "MASTER_ADDR=trainer", "--env", "MASTER_PORT=29500", "--env")
NO_SHELL = [f"--mount=type=bind,source=/dev/null,target=/usr/bin/{shell},readonly" for shell in ("dash", "bash")]


def test_ranks_in_containers_with_nothing_of_ours_and_no_right_are_sampled(stack: Stack, boxes: Boxes) -> None:
    names = [boxes.start(f"train-{rank}", "hold-on", *RANK, f"RANK={rank}") for rank in (0, 1)]
    seen = dump(stack, CONTAINERS=own_project("train-*"))
    ranks = {entry["id"]: entry for entry in seen.processes.values()}
    assert {entry["container"] for entry in ranks.values()} == set(names)
    assert [ranks[f"rank{rank}"]["container"] for rank in (0, 1)] == names
    assert all(len([s for s in entry["samples"] if s.get("file")]) == 2 for entry in ranks.values())
    assert seen.stacks.count("hold_on") >= 2
    # Nothing of it is left, and nothing was left stopped.
    wait_for("no probe", lambda: not probes())
    assert {state for name in names for state in boxes.states(name)} == {"S"}


@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("hold-on", NO_SHELL),
        ("unreadable", []),
        ("hold-on", ["--pid", "host"]),
        ("hold-on", ["--init"]),
        ("hold-on", ["--memory", "64m", "--pids-limit", "4"]),
    ],
    ids=["without a shell", "not dumpable", "in the machine's PID namespace", "behind an init", "with tight limits"],
)
def test_whatever_a_container_is_like_its_processes_and_no_others_are_sampled(
    stack: Stack, boxes: Boxes, what: str, options: list[str]
) -> None:
    name = boxes.start("box", what, *options)
    seen = dump(stack, "--everything", CONTAINERS=name)
    assert not seen.unreachable
    pythons = [entry for entry in seen.processes.values() if "python" in entry["command"]]
    assert ["program.py" in entry["command"] for entry in pythons] == [True], pythons
    assert all(container == name for container, _ in seen.processes)
    assert "hold_on" in seen.stacks


def test_one_that_has_a_stopped_process_is_sampled_and_stays_as_it_was(stack: Stack, boxes: Boxes) -> None:
    name = boxes.start("box", "hold-on", "--init")
    [pid] = [
        row.split()[0] for row in docker("top", name, "-eo", "pid,args").splitlines() if "python3" in row.split()[1]
    ]
    os.kill(int(pid), signal.SIGSTOP)
    seen = dump(stack, "--everything", CONTAINERS=name)
    [entry] = [entry for entry in seen.processes.values() if "python" in entry["command"]]
    assert entry["state"] == "T"
    assert "hold_on" in seen.stacks
    assert "T" in boxes.states(name)


def test_what_can_not_be_sampled_is_told_and_not_waited_for(stack: Stack, boxes: Boxes) -> None:
    paused, ended, alive = boxes.start("paused"), boxes.start("ended"), boxes.start("alive")
    docker("pause", paused)
    docker("kill", ended)
    seen = dump(stack, "--everything", CONTAINERS=f"{paused},{ended},{alive}")
    assert f"docker unpause {paused}" in seen.unreachable[paused]
    assert "exit code 137" in seen.unreachable[ended]
    assert {container for container, _ in seen.processes} == {alive}
    docker("unpause", paused)
    assert boxes.states(paused) == ["S"]


@pytest.mark.parametrize("happens", ["kill", "pause"])
def test_one_that_ends_or_is_paused_in_mid_dump_does_not_cost_the_others(
    stack: Stack, boxes: Boxes, happens: str
) -> None:
    going, staying = boxes.start("going"), boxes.start("staying")
    command = in_background(stack, f"{going},{staying}", gap=4)
    wait_for("both probes", lambda: len(probes()) == 2)
    docker(happens, going)
    said, _ = command.communicate(timeout=120)
    manifest = json.loads((_folder(said) / "manifest.json").read_text())
    assert staying in {entry.get("container") for entry in manifest["processes"]}
    if happens == "kill":
        assert "ended" in manifest["unreachable"][going]
    else:
        docker("unpause", going)
        wait_for("the paused one to go on", lambda: boxes.states(going) == ["S"])
    wait_for("no probe", lambda: not probes())


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=["Ctrl-C", "SIGTERM", "SIGKILL"]
)
def test_who_breaks_it_off_leaves_no_probe_and_nothing_stopped(
    stack: Stack, boxes: Boxes, number: signal.Signals
) -> None:
    name = boxes.start("box")
    command = in_background(stack, name, gap=60)
    # One that was created and never started has no end: the next dump removes it (tests/unit/test_docker_helpers.py).
    wait_for("the probe to run", lambda: probes("--filter", "status=running"))
    command.send_signal(number)
    command.wait(60)
    wait_for("no probe", lambda: not probes())
    assert boxes.states(name) == ["S"]


def test_a_name_that_no_container_has_is_wrong_usage(stack: Stack, boxes: Boxes) -> None:
    name = boxes.start("box")
    ended = stack.run("hang-dump", "--json", CONTAINERS=own_project("bocks"))
    assert ended.code == 2
    assert name in ended.json()["mend"]


def test_without_docker_the_environment_is_unfit(stack: Stack) -> None:
    ended = stack.run("hang-dump", "--json", CONTAINERS="box", DOCKER_HOST="unix:///nonexistent.sock")
    assert ended.code == 3
    assert "make docker" in ended.json()["mend"]


def in_background(stack: Stack, names: str, gap: int) -> subprocess.Popen[str]:
    """Start a dump; it lasts as long as the gap between two samples."""
    environment = stack.environment(CONTAINERS=names, GAP=str(gap))
    return subprocess.Popen(
        [str(HARNESS), "hang-dump", "--json", "--everything"],
        env=environment, cwd=CLONE, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _folder(said: str) -> Path:
    return Path(json.loads(said)["folder"])
