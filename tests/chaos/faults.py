"""The faults: each breaks one thing while a verb is at work; what only a person can put right is put right after it."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.door import Door
from tests.support.harness import docker

# Long enough for somebody to notice, and for a request to wait.
HELD_SECONDS = 6.0


@dataclass
class World:
    """What faults can reach.

    Attributes:
        project: the Compose project that is ours to break.
        disks: small file systems of ours, by name.
    """

    project: str
    door: Door
    disks: dict[str, Path]


@dataclass
class Verb:
    """A verb that runs, as a shell starts it: in a process group of its own."""

    process: subprocess.Popen[str]

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def tell(self, number: signal.Signals, *, group: bool) -> None:
        """Send a signal, to the whole group as a terminal does or to the one process."""
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if group else os.kill)(self.process.pid, number)


# Does it, and returns what it did; "" where there was nothing to do it to.
Fault = Callable[[World, Verb, random.Random], str]


def containers(project: str) -> list[str]:
    """Running containers of a project, its samplers included."""
    names: list[str] = []
    for label in (f"com.docker.compose.project={project}", f"dev.drydock.project={project}"):
        names += docker("ps", "--filter", f"label={label}", "--format", "{{.Names}}", check=False).split()
    return sorted(set(names))


def _to_a_container(*command: str) -> Fault:
    def fault(world: World, verb: Verb, chance: random.Random) -> str:
        there = containers(world.project)
        if not there:
            return ""
        name = chance.choice(there)
        done = subprocess.run(["docker", *command, name], capture_output=True, text=True, check=False)
        return f"docker {' '.join(command)} {name}" if done.returncode == 0 else ""

    return fault


def _freeze_a_process(world: World, verb: Verb, chance: random.Random) -> str:
    there = containers(world.project)
    rows = docker("top", chance.choice(there), "-eo", "pid,args", check=False).splitlines()[1:] if there else []
    if not rows:
        return ""
    pid, _, command = chance.choice(rows).strip().partition(" ")
    try:
        os.kill(int(pid), signal.SIGSTOP)
    except ProcessLookupError:
        return ""
    return f"SIGSTOP to {command.strip()[:80]}"


def _cut_off(world: World, verb: Verb, chance: random.Random) -> str:
    network = f"{world.project}_default"
    there = _members(network)
    if not there:
        return ""
    name = chance.choice(there)
    docker("network", "disconnect", "--force", network, name, check=False)
    return f"{name} taken off its network"


def _remove_network(world: World, verb: Verb, chance: random.Random) -> str:
    network = f"{world.project}_default"
    for _ in range(5):
        there = _members(network)
        for name in there:
            docker("network", "disconnect", "--force", network, name, check=False)
        if network in docker("network", "rm", network, check=False):
            return f"network removed, with {len(there)} containers on it"
    return ""


def _members(network: str) -> list[str]:
    return sorted(
        docker("network", "inspect", "--format", "{{range .Containers}}{{.Name}} {{end}}", network, check=False).split()
    )


def _signal(number: signal.Signals, *, group: bool) -> Fault:
    def fault(world: World, verb: Verb, chance: random.Random) -> str:
        if not verb.running:
            return ""
        verb.tell(number, group=group)
        return f"{number.name} to the verb"

    return fault


def _freeze_verb(world: World, verb: Verb, chance: random.Random) -> str:
    if not verb.running:
        return ""
    verb.tell(signal.SIGSTOP, group=True)
    time.sleep(HELD_SECONDS)
    verb.tell(signal.SIGCONT, group=True)
    return f"the verb stopped for {HELD_SECONDS:.0f} s"


def _fill(name: str) -> Fault:
    def fault(world: World, verb: Verb, chance: random.Random) -> str:
        with contextlib.suppress(OSError), (world.disks[name] / ".filler").open("wb", buffering=0) as filler:
            while filler.write(b"\0" * 4096):
                pass
        return f"the disk of {name} full"

    return fault


def _engine_gone(world: World, verb: Verb, chance: random.Random) -> str:
    world.door.shut()
    return "the engine's socket refuses"


def _engine_silent(world: World, verb: Verb, chance: random.Random) -> str:
    world.door.hold()
    time.sleep(HELD_SECONDS)
    world.door.open()
    return f"the engine silent for {HELD_SECONDS:.0f} s"


def _kill_in_dev(world: World, verb: Verb, chance: random.Random) -> str:
    dev = f"{world.project}-dev-1"
    rows = docker("top", dev, "-eo", "pid,args", check=False).splitlines()[1:]
    ours = [row.split()[0] for row in rows if "harness" in row and "sampler" not in row]
    if not ours:
        return ""
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(chance.choice(ours)), signal.SIGKILL)
    return "SIGKILL to a process of ours in dev"


FAULTS: dict[str, tuple[str, Fault]] = {
    "kill-container": ("a container is killed", _to_a_container("kill")),
    "remove-container": ("a container is removed", _to_a_container("rm", "--force")),
    "pause-container": ("a container is paused", _to_a_container("pause")),
    "stop-container": ("a container's first process is stopped (SIGSTOP)", _to_a_container("kill", "--signal", "STOP")),
    "freeze-process": ("any process in a container is stopped (SIGSTOP)", _freeze_a_process),
    "kill-in-dev": ("a process of ours in `dev` is killed", _kill_in_dev),
    "cut-off": ("a container is taken off its network", _cut_off),
    "remove-network": ("the network is removed", _remove_network),
    "interrupt": ("Ctrl-C", _signal(signal.SIGINT, group=True)),
    "terminate": ("SIGTERM to the verb", _signal(signal.SIGTERM, group=False)),
    "kill": ("SIGKILL to the verb", _signal(signal.SIGKILL, group=False)),
    "kill-all": ("SIGKILL to the verb and all it started", _signal(signal.SIGKILL, group=True)),
    "freeze-verb": ("the verb is stopped for a while, and goes on", _freeze_verb),
    "full-results": ("the disk of the results is full", _fill("results")),
    "full-state": ("the disk of `.drydock/PROJECT` is full", _fill("state")),
    "engine-gone": ("Docker's socket refuses", _engine_gone),
    "engine-silent": ("Docker takes requests and is silent for a while", _engine_silent),
}


def undo(world: World, verb: Verb) -> None:
    """Put right what no verb of ours could: room on a disk, an engine, a process that somebody has stopped."""
    world.door.open()
    for disk in world.disks.values():
        (disk / ".filler").unlink(missing_ok=True)
    verb.tell(signal.SIGCONT, group=True)
