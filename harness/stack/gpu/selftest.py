"""``make gpu-selftest``: what could not be tried without a GPU, as commands whose output goes into one file.

A stack of its own project is brought up and taken down again, so that one that runs is left alone. Each step is an own
process with a time limit, and the next is run whatever became of it: a failure is what we want to know.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.runs import RunFolder

PROJECT = "gpu-selftest"
# Over all of it; an image of ten gigabytes may take longer, and then only its pull does.
UP_SECONDS, CHECK_SECONDS, SHORT_SECONDS = 3600, 300, 60
# What a driver has to show inside a container that got a card.
SEES = ["nvidia-smi", "--query-gpu=index,uuid,name,memory.used", "--format=csv"]
RAY_RESOURCES = "import ray; ray.init(log_to_driver=False); print(ray.cluster_resources())"
TORCH_CARDS = "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.device_count())"


@dataclass(frozen=True)
class Step:
    """One command.

    Attributes:
        name: of its output's file.
        environment: settings for it.
        wanted: whether its failure counts; what only informs may fail.
    """

    name: str
    command: tuple[str, ...]
    seconds: float = SHORT_SECONDS
    environment: tuple[tuple[str, str], ...] = ()
    wanted: bool = True


@dataclass(frozen=True)
class Outcome:
    """How a step ended; ``code`` is None where it was stopped."""

    name: str
    code: int | None
    seconds: float
    wanted: bool

    @property
    def good(self) -> bool:
        return self.code == 0


def steps(cards: int, ports: tuple[int, int]) -> list[Step]:
    """What is tried on a machine with so many cards, in this order.

    Args:
        ports: two free ones, for the server and Ray's dashboard.
    """
    found = [
        Step("nvidia-smi", ("nvidia-smi",)),
        Step("topology", ("nvidia-smi", "topo", "-m"), wanted=False),
        Step("docker-info", ("docker", "info"), wanted=False),
        Step("doctor", ("harness", "doctor", "--json"), 120, wanted=False),
    ]
    plans: list[tuple[str, dict[str, str]]] = [("sglang", {"ENGINE": "sglang"}), ("vllm", {"ENGINE": "vllm"})]
    if cards > 1:
        plans.append(("sglang-tp2", {"ENGINE": "sglang", "TP": "2", "GPUS_TRAIN": "none", "GPUS_INFERENCE": "0,1"}))
        plans.append(("vllm-dp2", {"ENGINE": "vllm", "DP": "2", "GPUS_TRAIN": "none", "GPUS_INFERENCE": "0,1"}))
    for name, wish in plans:
        given = {"MODEL": "qwen2.5-0.5b", "PROJECT": PROJECT, "PORT": str(ports[0]), "DASHBOARD_PORT": str(ports[1])}
        environment = tuple({**given, **wish}.items())
        found += [
            Step(f"{name}-up", ("harness", "up"), UP_SECONDS, environment),
            Step(f"{name}-verify", ("harness", "verify"), 120, environment, wanted=False),
            Step(f"{name}-card", _inside("inference", *SEES)),
            Step(f"{name}-check", ("harness", "check", "--stage", "1,2"), CHECK_SECONDS, environment),
            Step(f"{name}-fingerprint", ("harness", "fingerprint", "--json"), 300, environment, wanted=False),
            Step(f"{name}-logs", ("docker", "logs", "--tail", "400", f"{PROJECT}-inference-1"), wanted=False),
        ]
    return [
        *found,
        Step("ray-resources", _inside("dev", "/opt/drydock/with-env", "/opt/venv/bin/python", "-c", RAY_RESOURCES)),
        Step("ray-card", _inside("ray-head", *SEES), wanted=False),
        Step("ray-torch", _inside("ray-head", "/opt/venv/bin/python", "-c", TORCH_CARDS), wanted=False),
        Step("down", ("harness", "down"), 120, (("PROJECT", PROJECT),)),
    ]


def run(
    wanted: Sequence[Step], folder: RunFolder, say: Callable[[str], None], program: Path | None = None
) -> Iterator[Outcome]:
    """Run the steps one after the other and keep what they print; an end by Ctrl-C still takes the stack down."""
    try:
        for step in wanted:
            say(step.name)
            yield _run(step, folder, program)
    except BaseException:
        for step in wanted:
            if step.name == "down":
                _run(step, folder, program)
        raise


def pack(folder: RunFolder, outcomes: Sequence[Outcome]) -> Path:
    """Everything in one file beside the folder; no secret is in it, for the folder's redactor went over all."""
    failed = [one for one in outcomes if one.wanted and not one.good]
    rows: list[dict[str, Any]] = [asdict(one) for one in outcomes]
    folder.finish({"verb": folder.verb, "exit_code": int(bool(failed)), "steps": rows})
    target = folder.path.with_suffix(".tar.gz")
    with tarfile.open(target, "w:gz") as archive:
        archive.add(folder.path, arcname=folder.path.name)
    return target


def _inside(service: str, *command: str) -> tuple[str, ...]:
    return ("docker", "exec", f"{PROJECT}-{service}-1", *command)


def _run(step: Step, folder: RunFolder, program: Path | None) -> Outcome:
    command = list(step.command)
    if command[0] == "harness":
        command[0] = str(program or Path(sys.executable).with_name("harness"))
    environment = {**os.environ, **dict(step.environment), "DRYDOCK_YES": "1", "NO_COLOR": "1"}
    started = time.monotonic()
    code: int | None = None
    try:
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        ) as process:
            try:
                output = process.communicate(timeout=step.seconds)[0]
                code = process.returncode
            except BaseException as error:
                # All that it started as well; `up` tidies up on this signal.
                os.killpg(process.pid, signal.SIGINT)
                output = process.communicate()[0]
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
    except OSError as error:
        output = f"{command[0]}: {error.strerror}".encode()
    text = f"$ {' '.join(step.command)}\n{output.decode('utf-8', 'replace')}\n[exit code {code}]\n"
    folder.write_text(f"{step.name}.txt", text)
    return Outcome(step.name, code, round(time.monotonic() - started, 1), step.wanted)
