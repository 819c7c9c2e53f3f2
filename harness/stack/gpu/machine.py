"""What this machine has of GPUs, and whether Docker can hand them to containers. Gathers only."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

QUERY = ["nvidia-smi", "--query-gpu=index,uuid,name,memory.total,driver_version", "--format=csv,noheader,nounits"]
# A driver that hangs makes every program that asks it hang.
SECONDS = 10
CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")

_NUMBER = re.compile(r"[0-9]{1,18}")

Way = Literal["nvidia", "cdi", ""]


@dataclass(frozen=True)
class Gpu:
    """One card.

    Attributes:
        index: its number, as ``nvidia-smi`` gives it.
        memory_mib: its memory in MiB.
    """

    index: str
    uuid: str
    name: str
    memory_mib: int


@dataclass(frozen=True)
class Machine:
    """What there is.

    Attributes:
        driver: NVIDIA's driver version, or "".
        cuda: the newest CUDA that the driver can do, such as ``12.8``, or "".
        way: how Docker hands GPUs to containers: by NVIDIA's own means or by a CDI specification; "" if it can't.
        amd: AMD's compute device is there.
        trouble: why ``nvidia-smi`` gave no answer, or "".
    """

    gpus: tuple[Gpu, ...] = ()
    driver: str = ""
    cuda: str = ""
    way: Way = ""
    amd: bool = False
    trouble: str = ""


def look(client: Any) -> Machine:
    """Ask the driver, and the engine if there is something to hand on."""
    amd = Path("/dev/kfd").exists()
    if shutil.which(QUERY[0]) is None:
        return Machine(amd=amd)
    listing, trouble = _run(QUERY)
    gpus, driver = read_listing(listing)
    if not gpus:
        return Machine(amd=amd, trouble=trouble or "nvidia-smi lists no GPU")
    header, _ = _run(["nvidia-smi"])
    return Machine(gpus, driver, read_cuda(header), way_of(client.info(), specifications()), amd)


def read_listing(text: str) -> tuple[tuple[Gpu, ...], str]:
    """The cards and the driver's version out of what QUERY prints; lines that are no card are left out."""
    gpus, driver = [], ""
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 5 and all(_NUMBER.fullmatch(parts[place]) for place in (0, 3)):
            gpus.append(Gpu(parts[0], parts[1], parts[2], int(parts[3])))
            driver = parts[4]
    return tuple(gpus), driver


def read_cuda(header: str) -> str:
    """The driver's CUDA version out of what ``nvidia-smi`` prints without arguments; "" where it isn't there."""
    match = re.search(r"CUDA Version:\s*(\d{1,6}\.\d{1,6})", header)
    return match[1] if match else ""


def cuda_missing(environment: dict[str, str], machine: Machine) -> str:
    """The CUDA version that an image wants and the driver can't do; "" where it can, or nobody knows.

    ``NVIDIA_REQUIRE_CUDA`` lists alternatives with spaces between; NVIDIA's runtime goes by it. One that names a driver
    is for data centre cards, which run a newer CUDA on an older driver: that can't be judged here.
    """
    wanted = environment.get("NVIDIA_REQUIRE_CUDA", "")
    versions = re.findall(r"cuda>=(\d{1,6}\.\d{1,6})", wanted)
    if not versions or not machine.cuda or "driver>=" in wanted:
        return ""
    oldest = min(versions, key=_numbers)
    return oldest if _numbers(oldest) > _numbers(machine.cuda) else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def way_of(info: dict[str, Any], cdi: list[Path]) -> Way:
    """How an engine hands GPUs on; CDI as of Engine 25 only."""
    if "nvidia" in (info.get("Runtimes") or {}):
        return "nvidia"
    major = re.match(r"\d+", str(info.get("ServerVersion") or ""))
    return "cdi" if cdi and major and int(major[0]) >= 25 else ""


def specifications() -> list[Path]:
    """Files of the machine that describe NVIDIA's devices to container engines."""
    return [path for folder in CDI_FOLDERS for path in sorted(Path(folder).glob("*nvidia*"))]


def _run(command: list[str]) -> tuple[str, str]:
    """Standard output, and why there is none."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "", f"{command[0]} doesn't answer within {SECONDS} s; the driver hangs"
    except OSError as error:
        return "", f"{command[0]}: {error.strerror}"
    said = (done.stdout + done.stderr).strip().splitlines()
    return (done.stdout, "") if done.returncode == 0 else ("", said[0] if said else f"exit code {done.returncode}")
