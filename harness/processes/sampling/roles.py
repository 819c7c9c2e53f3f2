"""What a process is, by its command line and its environment; pure."""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

CommandRole = Literal["server", "launcher", "worker", ""]

_SERVER_COMMANDS = re.compile(
    r"vllm(?:\.entrypoints| serve)|VLLM::|vllm_ext|sglang\.launch_server|sglang::|areal\.[\w.]*(?:vllm|sglang)_server"
    r"|xllamacpp|llama_cpp|llamacpp_server|llama-server|-m gateway(?!\.healthcheck)"
    r"|uvicorn|gunicorn|hypercorn|text-generation|trtllm-serve"
)
_LAUNCHER_COMMANDS = re.compile(
    r"(?:torchrun|torch\.distributed\.(?:run|launch)|accelerate(?:\.commands\.launch| launch)|deepspeed\.launcher"
    r"|\bmpirun|\bsrun)\b"
)
_GATEWAY = re.compile(r"-m gateway(?!\.healthcheck)")
RAY_WORKER = re.compile(r"^ray::|default_worker\.py")
_RAY_SYSTEM = re.compile(
    r"/raylet|gcs_server|ray/dashboard|log_monitor\.py|ray/autoscaler|runtime_env/agent|ray[./]util[./]client[./]server"
    r"|/ray start\b|/opt/drydock/(?:relay|dashboard_gate|sampler)\.py"
    r"|^ray::(?:Dashboard\w*|RuntimeEnvAgent|LogMonitor|IDLE_SpillWorker|IDLE_RestoreWorker)"
    r"|bin/ray start\b|ray[./]util[./]client[./]server"
)
# An agent that one of our checks runs: its code is the user's, and what people look for when a check stands still.
_CHECKED_AGENT = re.compile(r"\bfrom harness\.(?:agent|checks)\.\w*child import main\b")
# Us, the dumper, and what starts us: never part of what hangs.
_OWN = re.compile(
    r"(?:^|/)py-spy(?:\s|$)|(?:^|[\s/])harness(?:\s|$)|-m harness\b|harness/cli/|harness\.cli\."
    r"|harness/ray_cluster/driver\.py|sampler\.pyz|^ray::drydock\b"
    r"|^\S+ /opt/drydock/(?:dashboard_gate|relay|ray-health)"
)

# The names under which launchers tell a process its place, the surest first.
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID")
_LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK",
                "SLURM_LOCALID")  # fmt: skip
_WORLD_SIZES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_NTASKS")
_LOCAL_SIZES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE")


@dataclass(frozen=True)
class Place:
    """A rank's place as its launcher told it.

    Attributes:
        job: what the ranks of one launch have in common; "" where nothing tells.
    """

    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    local_world_size: int | None = None
    job: str = ""


def role_by_command(command: str) -> CommandRole:
    """A role that the command line alone tells."""
    if RAY_WORKER.search(command):
        return "worker"
    if _SERVER_COMMANDS.search(command):
        return "server"
    if _LAUNCHER_COMMANDS.search(command):
        return "launcher"
    return ""


def is_gateway(command: str) -> bool:
    """Our gateway: what it starts is an inference engine, whatever that is called."""
    return bool(_GATEWAY.search(command))


def is_system(command: str) -> bool:
    """Ray's own services: they wait by design and say nothing of a hang."""
    return bool(_RAY_SYSTEM.search(command))


def is_idle(command: str) -> bool:
    """A Ray worker without a task, or on its way to one. Ray ends those as it likes, also those of a dump's own job."""
    return command.startswith("ray::IDLE") or "ray/_private/workers/default_worker.py" in command


def is_own(arguments: list[str]) -> bool:
    """Whether this is Drydock or py-spy themselves; a command's later arguments may name them and don't count."""
    return bool(_OWN.search(" ".join(arguments[:3])))


def is_checked_agent(arguments: list[str]) -> bool:
    """Whether `make check` runs an agent in this process."""
    return any(_CHECKED_AGENT.search(argument) for argument in arguments[:4])


def is_supervisor(arguments: list[str]) -> bool:
    """Whether this is what follows a command of `make run`."""
    return is_own(arguments) and "supervise" in arguments[1:4]


def is_python(arguments: list[str], name: str = "") -> bool:
    """Whether an interpreter runs this, by the command line or the kernel's name for it.

    A process may have given itself a title (``ray::Actor.step``); then only who may read its memory map knows.
    """
    words = [os.path.basename(arguments[0])] if arguments else []
    return any(re.match(r"(?:python|pypy|pt_main_thread)", word) for word in [*words, name])


def place(environ: Mapping[str, str]) -> Place:
    """Which rank of how many, by the environment that torchrun, Slurm, MPI, Ray Train or a user's script gave it.

    A world size alone makes no rank, and nor does Slurm's number in a job of one task.
    """
    rank = _number(environ, _RANKS)
    size = _number(environ, _WORLD_SIZES)
    if rank is None or ("RANK" not in environ and (size or 0) < 2):
        return Place()
    return Place(
        rank, _number(environ, _LOCAL_RANKS), size, _number(environ, _LOCAL_SIZES) or _per_node(environ), _job(environ)
    )


def _per_node(environ: Mapping[str, str]) -> int | None:
    """``SLURM_NTASKS_PER_NODE`` may say ``4(x2),3``; only a plain number is sure."""
    return _number(environ, ("SLURM_NTASKS_PER_NODE",))


def _job(environ: Mapping[str, str]) -> str:
    address, port = environ.get("MASTER_ADDR", ""), environ.get("MASTER_PORT", "")
    if address and port:
        return f"{address}:{port}"
    return environ.get("TORCHELASTIC_RUN_ID") or environ.get("SLURM_JOB_ID") or ""


def _number(environ: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = environ.get(name, "")
        if value.isdecimal() and len(value) < 8:
            return int(value)
    return None
