"""Takes one step after another: a verb, a fault in the middle of it, and a look at what is left."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.chaos import traces
from tests.chaos.door import Door
from tests.chaos.faults import FAULTS, Fault, Verb, World, containers, undo
from tests.chaos.planning import VERBS, Step
from tests.chaos.strangers import Strangers, processes_with
from tests.support.harness import CLONE, HARNESS, Stack, docker, free_port

# Beyond any time limit of a verb's own.
ENDS_SECONDS = 400.0
GONE_SECONDS = 45.0
EXIT_CODES = (0, 1, 3, 130)


@dataclass
class Outcome:
    """How a step went.

    Attributes:
        did: what the fault did; "" where it found nothing to break.
        in_flight: the verb was still at work then.
        load: how many processes wanted a core, over the last minute at the step's end.
        code: the verb's exit code; negative: ended by that signal.
        ended: seconds from the fault to the verb's end.
        back: seconds that the next `up` took.
        faults: what is not as it should be; empty where all is.
    """

    step: Step
    did: str = ""
    in_flight: bool = False
    code: int | None = None
    ended: float = 0.0
    back: float = 0.0
    faults: list[str] = field(default_factory=list)
    load: float = 0.0
    said: str = ""

    def as_dict(self) -> dict[str, object]:
        """For the file of figures."""
        found = {key: value for key, value in asdict(self).items() if key not in ("step", "said")}
        return {**asdict(self.step), **found, **({"said": self.said} if self.faults else {})}


class Chaos:
    """A stack of our own on small disks, with strangers beside it.

    Args:
        project: its Compose project.
        work: a folder for all that is ours.
        disks: whether results and state lie on small file systems of their own; needs root.
    """

    def __init__(self, project: str, work: Path, *, disks: bool) -> None:
        self.mark = f"drydock-chaos-{uuid.uuid4().hex}"
        self.work = work
        self.door = Door(work / "docker.sock")
        self.results = work / "runs"
        self.state = CLONE / ".drydock" / project
        self.workspace = work / "workspace"
        shutil.copytree(CLONE / "examples", self.workspace)
        self._mounted: list[Path] = []
        for folder in (self.results, self.state):
            folder.mkdir(parents=True, exist_ok=True)
            if disks:
                subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "drydock-chaos", str(folder)], check=True)
                self._mounted.append(folder)
        self.stack = Stack(
            project,
            work,
            {
                "DOCKER_HOST": self.door.address,
                "WORKSPACE": str(self.workspace),
                "PORT": str(free_port()),
                "DASHBOARD_PORT": str(free_port()),
                "THREADS": "1",
                "WAIT": "240",
                "DRYDOCK_CHAOS": self.mark,
            },
        )
        self.world = World(project, self.door, {"results": self.results, "state": self.state} if disks else {})
        self.strangers = Strangers(
            f"{project}-stranger", (self.results / "notes.txt", self.workspace / "notes.txt", work / "notes.txt")
        )
        self.usual: dict[str, float] = {}

    def begin(self) -> None:
        """Bring everything up, plant the strangers, and measure each verb undisturbed."""
        self._check(self.stack.run("down").code == 0, "the first down")
        for verb in VERBS:
            started = time.monotonic()
            ended = self.stack.run(verb, timeout=ENDS_SECONDS)
            self.usual[verb] = time.monotonic() - started
            # A dump of a stack in which nobody trains finds no hang; that is 0 as well.
            self._check(ended.code == 0, str(ended))
        self.stack.run("up").ok()
        self.strangers.plant(json.loads(docker("inspect", self.stack.container("dev")))[0]["Image"])

    def end(self) -> list[str]:
        """Take all down; returns what is wrong or still there then."""
        wrong = []
        with contextlib.suppress(OSError):
            self.door.open()
        for _ in range(2):
            ended = self.stack.run("down")
        if ended.code != 0:
            wrong.append(str(ended))
        wrong += self._left() + self.strangers.touched()
        self.strangers.remove()
        for volume in traces.volumes(self.stack.project):
            docker("volume", "rm", volume, check=False)
        self.close()
        return wrong

    def close(self) -> None:
        """Give back disks and socket."""
        self.door.close()
        for folder in self._mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=False)
        self._mounted.clear()
        shutil.rmtree(self.state, ignore_errors=True)
        shutil.rmtree(self.work, ignore_errors=True)

    def take(self, step: Step, fault: Fault | None = None) -> Outcome:
        """Take one step from a stack that is up to a stack that is up."""
        outcome = Outcome(step)
        self._prepare(step, outcome)
        kept = self._start(step)
        verb, out, err = kept
        started = time.monotonic()
        chance = random.Random(step.seed)
        share = step.moment / 2 if step.verb == "up" and not step.cold else step.moment
        self._wait(verb, started + share * self.usual[step.verb])
        chosen = fault or FAULTS[step.fault][1]
        while True:
            outcome.in_flight = verb.running
            outcome.did = chosen(self.world, verb, chance)
            # Nothing there yet, such as a container early in `up`: as soon as there is. A verb that has ended is late.
            if outcome.did or not verb.running:
                break
            time.sleep(0.05)
        broken = time.monotonic()
        if not outcome.in_flight and step.verb != "up":
            # It is quicker than it was at the beginning; else one fault after the other would come too late.
            self.usual[step.verb] = min(self.usual[step.verb], broken - started)
        try:
            outcome.code = verb.process.wait(timeout=ENDS_SECONDS)
        except subprocess.TimeoutExpired:
            outcome.faults.append(f"{step.verb} still ran {ENDS_SECONDS:.0f} s after the fault")
            verb.tell(signal.SIGKILL, group=True)
            verb.process.wait()
        outcome.ended = round(time.monotonic() - broken, 1)
        outcome.said = f"--- stdout\n{out.read_text()[-4000:]}\n--- stderr\n{err.read_text()[-4000:]}"
        outcome.faults += self._judge_verb(step, outcome.code, out.read_text(), err.read_text())
        undo(self.world, verb)
        self._recover(step, outcome)
        outcome.load = round(os.getloadavg()[0], 1)
        return outcome

    def _prepare(self, step: Step, outcome: Outcome) -> None:
        for path in self.results.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
        if step.verb != "up":
            return
        if step.cold:
            ended = self.stack.run("down")
            if ended.code != 0:
                outcome.faults.append(f"down doesn't end well before it: {ended}")
        else:
            docker("kill", self.stack.container(random.Random(step.seed).choice(["inference", "dev", "ray-head"])))

    def _start(self, step: Step) -> tuple[Verb, Path, Path]:
        out, err = self.work / "stdout", self.work / "stderr"
        with out.open("w") as stdout, err.open("w") as stderr:
            process = subprocess.Popen(
                [str(HARNESS), step.verb, "--json"], cwd=CLONE, env=self.stack.environment(), text=True,
                stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True,
            )  # fmt: skip
        return Verb(process), out, err

    @staticmethod
    def _wait(verb: Verb, until: float) -> None:
        while verb.running and time.monotonic() < until:
            time.sleep(0.02)

    def _judge_verb(self, step: Step, code: int | None, out: str, err: str) -> Iterator[str]:
        if "Drydock itself failed" in out + err or "Traceback (most recent call last)" in out + err:
            yield "a traceback instead of an error of ours"
        signalled = {"terminate": 128 + signal.SIGTERM, "kill": -signal.SIGKILL, "kill-all": -signal.SIGKILL}
        if code is not None and code not in (*EXIT_CODES, signalled.get(step.fault)):
            yield f"exit code {code}"
        if code is not None and code >= 0:
            try:
                json.loads(out)
            except ValueError:
                yield f"--json, and standard output is not one document but {out[:200]!r}"

    def _recover(self, step: Step, outcome: Outcome) -> None:
        if step.verb == "down":
            again = self.stack.run("down")
            if again.code != 0:
                outcome.faults.append(f"down doesn't end well after it: {again}")
            else:
                outcome.faults += self._left()
        started = time.monotonic()
        up = self.stack.run("up", timeout=ENDS_SECONDS)
        outcome.back = round(time.monotonic() - started, 1)
        if up.code != 0:
            outcome.faults.append(f"not back by `up`: {up}")
            for verb in ("up", "down", "up"):
                self.stack.run(verb)
        status = self.stack.run("status", "--json")
        if status.code != 0:
            outcome.faults.append(f"not all is well after `up`: {status}")
        outcome.faults += self._files(step)
        outcome.faults += self._processes()
        outcome.faults += self.strangers.touched()

    def _files(self, step: Step) -> list[str]:
        self._settle(lambda: self._check_in_dev() == [])
        return [*traces.half_written(self.results), *traces.half_written(self.state)]

    def _processes(self) -> list[str]:
        left: list[str] = []

        def none() -> bool:
            left[:] = [f"still runs on this machine: {row}" for row in processes_with(self.mark)]
            left.extend(f"still runs in dev: {row}" for row in self._check_in_dev())
            return not left

        self._settle(none)
        return left

    def _check_in_dev(self) -> list[str]:
        rows = docker("top", f"{self.stack.project}-dev-1", "-eo", "pid,args", check=False).splitlines()[1:]
        return [row.strip()[:120] for row in rows if "harness check" in row or "harness.agent" in row]

    def _left(self) -> list[str]:
        self._settle(lambda: not traces.ours(self.stack.project))
        return [f"left after down: {row}" for row in traces.ours(self.stack.project)] + self._processes()

    @staticmethod
    def _settle(condition: Callable[[], bool], seconds: float = GONE_SECONDS) -> bool:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.2)
        return True

    @staticmethod
    def _check(fine: bool, what: str) -> None:
        if not fine:
            raise RuntimeError(f"nothing was broken yet, and this fails already: {what}")


def may_mount() -> bool:
    """Whether small disks of our own can be had."""
    if os.geteuid() != 0:
        return False
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "drydock-chaos", folder], check=False)
        if done.returncode == 0:
            subprocess.run(["umount", folder], check=True)
        return done.returncode == 0


def figures(outcomes: list[Outcome]) -> dict[str, object]:
    """What can be counted of a run."""
    back = [outcome.back for outcome in outcomes]
    return {
        "steps": len(outcomes),
        "in_flight": sum(outcome.in_flight and bool(outcome.did) for outcome in outcomes),
        "fine": sum(not outcome.faults for outcome in outcomes),
        "back_median": round(statistics.median(back), 1) if back else 0.0,
        "back_most": max(back, default=0.0),
    }


__all__ = ["Chaos", "Outcome", "containers", "figures", "may_mount"]
