"""The whole stack is seen from this machine and, without Docker or any right, from `dev`, which gains nothing else."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from tests.scenarios.hang_ways.conftest import PROGRAM, Dump, dump, dump_in_dev
from tests.support.harness import Stack, docker, wait_for

pytestmark = pytest.mark.docker

SOCKETS = "/run/drydock-samplers"
ROLLOUT = """
import time, ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

@ray.remote(num_cpus=0.01)
class Rollout:
    def ready(self): return True
    def generate(self): time.sleep(100000)

ray.init(log_to_driver=False)
nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
actors = [Rollout.options(scheduling_strategy=On(node, soft=False)).remote() for node in nodes]
ray.get([actor.ready.remote() for actor in actors])
print("ready", flush=True)
ray.get([actor.generate.remote() for actor in actors])
"""


@pytest.fixture
def rollout(up: Stack) -> Iterator[Stack]:
    """A driver in `dev` that waits for an actor on each other node."""
    up.execute("dev", "sh", "-c", f"cat > /tmp/rollout.py <<'END'\n{textwrap.dedent(ROLLOUT)}END")
    start = "/opt/drydock/with-env python /tmp/rollout.py > /tmp/rollout.log 2>&1 & echo $! > /tmp/rollout.pid; wait"
    docker("exec", "--detach", up.container("dev"), "sh", "-c", start)
    wait_for(
        "actors on all nodes", lambda: "ready" in up.execute("dev", "sh", "-c", "cat /tmp/rollout.log || true"), 120
    )
    yield up
    up.execute("dev", "sh", "-c", "kill $(cat /tmp/rollout.pid)")


def test_host_and_dev_see_the_same_processes_of_all_containers(rollout: Stack) -> None:
    outside, inside = dump(rollout), dump_in_dev(rollout)
    for seen in (outside, inside):
        assert not seen.unreachable
        containers = {container for container, _ in seen.processes}
        assert containers == {f"{rollout.project}-{name}-1" for name in ("dev", "ray-head", "ray-worker", "inference")}
        actors = {c for (c, _), entry in seen.processes.items() if "ray::Rollout.generate" in entry["command"]}
        assert actors == {f"{rollout.project}-{name}-1" for name in ("ray-head", "ray-worker")}
        [driver] = [entry for entry in seen.processes.values() if "rollout.py" in entry["command"]]
        assert (driver["role"], driver["container"]) == ("driver", f"{rollout.project}-dev-1")
        assert any(entry["role"] == "server" for entry in seen.processes.values())
        assert not [
            entry for entry in seen.processes.values() if not all(sample.get("file") for sample in entry["samples"])
        ]
    assert _known(outside) == _known(inside)


def _known(seen: Dump) -> dict[Any, Any]:
    """What is said of a process wherever it is seen from."""
    names = ("id", "role", "host", "command", "own_pid", "start_ticks")
    return {key: [entry.get(name) for name in names] for key, entry in seen.processes.items()}


def test_dev_samples_its_own_processes_by_number_although_they_are_not_readable(up: Stack) -> None:
    pid = start_in_dev(up, "python", "/tmp/program.py", "unreadable")
    try:
        # The same user may not: this is how a machine with Yama is for everybody.
        denied = up.execute("dev", "sh", "-c", f"py-spy dump --pid {pid} 2>&1 || true")
        assert "ermission" in denied
        seen = dump_in_dev(up, "--pids", pid)
        assert [entry["pid"] for entry in seen.processes.values()] == [int(pid)]
        assert "hold_on" in seen.stacks
    finally:
        up.execute("dev", "kill", "-9", pid)


def start_in_dev(stack: Stack, *command: str) -> str:
    """Start a command in `dev` and wait until it says "ready"; returns its number there."""
    docker("cp", str(PROGRAM), f"{stack.container('dev')}:/tmp/program.py")
    stack.execute("dev", "rm", "-f", "/tmp/said")
    script = 'echo $$ > /tmp/pid; exec "$@" > /tmp/said 2>&1'
    docker("exec", "--detach", stack.container("dev"), "sh", "-c", script, "sh", *command)
    wait_for("the program", lambda: "ready" in stack.execute("dev", "sh", "-c", "cat /tmp/said || true"))
    return stack.execute("dev", "cat", "/tmp/pid").strip()


def samplers(stack: Stack) -> dict[str, str]:
    """Container with a sampler to its id."""
    ours = ("--filter", "label=dev.drydock.role=sampler", "--filter", f"label=dev.drydock.project={stack.project}")
    rows = docker("ps", "--no-trunc", *ours, "--format", "{{.Names}} {{.ID}}").splitlines()
    return {name.removesuffix("-sampler"): identity for name, identity in (row.split() for row in rows)}


def test_each_container_has_a_sampler_with_one_capability_and_nothing_else(up: Stack) -> None:
    found = samplers(up)
    assert set(found) == {f"{up.project}-{name}-1" for name in ("dev", "ray-head", "ray-worker", "inference")}
    for facts in json.loads(docker("inspect", *found.values())):
        host = facts["HostConfig"]
        assert (host["CapAdd"], host["CapDrop"], host["Privileged"]) == (["SYS_PTRACE"], ["ALL"], False)
        assert host["SecurityOpt"] == ["no-new-privileges:true"]
        assert host["PidMode"].startswith("container:")
        assert (host["NetworkMode"], host["ReadonlyRootfs"]) == ("none", True)
        assert [mount["Destination"] for mount in facts["Mounts"]] == [SOCKETS]
        assert not any("KEY" in variable or "TOKEN=" in variable for variable in facts["Config"]["Env"])
    with_sockets = docker("ps", "--filter", f"volume={up.project}_samplers", "--format", "{{.Names}}").split()
    assert {name for name in with_sockets if not name.endswith("-sampler")} == {f"{up.project}-dev-1"}


def test_a_sampler_that_was_ended_is_told_in_dev_and_started_by_up(up: Stack) -> None:
    before, name = up.ids(), f"{up.project}-inference-1"
    docker("kill", samplers(up)[name])
    wait_for("status to name it", lambda: up.run("status", "--json").json()["unsampled"] == [name])
    said = up.execute("dev", "sh", "-c", "harness hang-dump --everything 2>&1 || true")
    [line] = [line for line in said.splitlines() if "couldn't be asked" in line]
    assert name in line
    assert "make up" in said
    assert up.run("up", "--json").ok().json()["changed"] == ["samplers"]
    assert up.ids() == before
    assert not dump_in_dev(up).unreachable


def test_a_container_made_anew_gets_a_new_sampler(up: Stack) -> None:
    name = f"{up.project}-inference-1"
    before = samplers(up)
    docker("rm", "--force", name)
    up.run("up").ok()
    after = samplers(up)
    assert after.keys() == before.keys()
    assert {other for other in before if before[other] != after[other]} == {name}
    seen = dump_in_dev(up)
    assert not seen.unreachable
    assert any(container == name for container, _ in seen.processes)


@pytest.mark.slow
def test_a_container_that_is_not_wanted_any_more_is_not_missed(up: Stack) -> None:
    up.run("up", WORKERS="0").ok()
    assert not dump_in_dev(up).unreachable
    up.run("up").ok()
    assert f"{up.project}-ray-worker-1" in samplers(up)


@pytest.mark.slow
def test_restarting_ray_keeps_samplers_beside_all(up: Stack) -> None:
    up.run("restart-ray").ok()
    assert not dump_in_dev(up).unreachable


ATTACKS: dict[str, Any] = {
    "not JSON": b"\x00\xff{{{{\n",
    "no object": b"[1]\n",
    "deep": b"[" * 30_000 + b"\n",
    "endless": b"a" * 200_000 + b"\n",
    "nothing": b"\n",
    "a file": {"logs": ["/etc/passwd", "/proc/1/environ"]},
    "somebody else's processes": {"within": ""},
    "a command": {"command": "id"},
    "code in a process": {"tasks": True},
    "a number that is none": {"pids": [True]},
    "a negative number": {"pids": [-1]},
    "a path for a number": {"pids": ["../1"]},
    "too many numbers": {"pids": [1] * 2001},
    "no end of time": {"timeout_seconds": 1e9},
    "not a number": b'{"gap_seconds": NaN}\n',
    "no end of samples": {"samples": 1000},
    "a word for a switch": {"native": "yes"},
    "no expression": {"match": "("},
}
ATTACK = """
import json, socket, sys
for name, request in json.load(sys.stdin):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(sys.argv[1])
        try:
            connection.sendall(request.encode("latin-1"))
        except BrokenPipeError:
            pass
        answer = b""
        try:
            while data := connection.recv(65536):
                answer += data
        except ConnectionResetError:
            pass
        print(json.dumps([name, answer.decode("latin-1")]))
"""


def test_a_sampler_does_nothing_but_sample_whatever_dev_sends(up: Stack) -> None:
    given = [
        (name, (value if isinstance(value, bytes) else json.dumps(value).encode() + b"\n").decode("latin-1"))
        for name, value in ATTACKS.items()
    ]
    socket = f"{SOCKETS}/{up.project}-inference-1"
    said = docker("exec", "--interactive", up.container("dev"), "python", "-c", ATTACK, socket, given=json.dumps(given))
    answers = dict(json.loads(line) for line in said.splitlines())
    assert answers.keys() == ATTACKS.keys()
    for name, answer in answers.items():
        assert answer == "" or "error" in json.loads(answer), name
    assert not dump_in_dev(up).unreachable


ATTEMPTS = (
    f"rm {SOCKETS}/*",
    f"touch {SOCKETS}/fake",
    "kill -0 $(pgrep -f sampler.py)",
    "cat /proc/$(pgrep -f sampler.py)/environ",
    "py-spy dump --pid $(pgrep -f sampler.py)",
)


def test_dev_can_neither_replace_nor_enter_a_sampler(up: Stack) -> None:
    for attempt in ATTEMPTS:
        said = up.execute("dev", "sh", "-c", f"({attempt}) > /dev/null 2>&1 && echo done || true")
        assert said == "", attempt
    assert not dump_in_dev(up).unreachable


def test_those_who_ask_and_go_away_do_not_block_the_next(up: Stack) -> None:
    script = f"""
import socket
crowd = [socket.socket(socket.AF_UNIX) for _ in range(4)]
for one in crowd:
    one.settimeout(5)
    one.connect("{SOCKETS}/{up.project}-inference-1")
    one.sendall(b'{{"gap_seconds": 60}}\\n')
"""
    up.execute("dev", "python", "-c", script)
    assert not dump_in_dev(up).unreachable


def test_no_process_of_this_machine_is_seen_from_dev(up: Stack) -> None:
    seen = dump_in_dev(up, "--everything")
    assert seen.processes
    assert {container for container, _ in seen.processes} <= set(samplers(up))
    assert not [
        entry for entry in seen.processes.values() if "sampler" in entry["command"] or "pytest" in entry["command"]
    ]


def test_local_variables_only_on_request_and_without_secrets(up: Stack) -> None:
    code = """
import time
def step(api_key, batch_size):
    print("ready", flush=True)
    time.sleep(1000)
step("sk-0123456789abcdef0123456789", 7)
"""
    pid = start_in_dev(up, "python", "-c", code)
    try:
        assert "batch_size" not in dump_in_dev(up, "--pids", pid).stacks
        seen = dump_in_dev(up, "--pids", pid, "--locals").stacks
        assert "batch_size" in seen
        assert "0123456789abcdef" not in seen
    finally:
        up.execute("dev", "kill", "-9", pid)
