"""GPUs: found or not, the driver, and whether containers could have them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness import engines
from harness.doctor.check import Check
from harness.doctor.context import Context
from harness.doctor.engine import Engine
from harness.doctor.findings import Finding, note, ok, warn
from harness.doctor.probing import Answer, ask, read

NVIDIA = "0x10de"
QUERY = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
# A driver that hangs makes every program that asks it hang.
DRIVER_SECONDS = 1.5
CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")


@dataclass(frozen=True)
class Gpus:
    """What there is of GPUs.

    Attributes:
        cards: NVIDIA's display controllers on the PCI bus.
        listing: what ``nvidia-smi`` says of them.
        amd: AMD's compute device is there.
        in_docker: Docker can hand NVIDIA GPUs to containers: by a runtime of that name or by a CDI specification;
            None where the engine can't be asked.
    """

    cards: int
    listing: Answer
    amd: bool
    in_docker: bool | None


def gather(engine: Callable[[], Engine]) -> Gpus:
    """Look at driver, PCI bus and traces of the container toolkit; the engine is asked last, it may be slow."""
    listing = ask(QUERY, DRIVER_SECONDS)
    # Without a GPU there is nothing to hand on, and nobody has to wait for the engine.
    specifications = [path for folder in CDI_FOLDERS for path in Path(folder).glob("*nvidia*")]
    known = listing.good and engine().answers
    return Gpus(
        cards=sum(_is_card(device) for device in Path("/sys/bus/pci/devices").glob("*")),
        listing=listing,
        amd=Path("/dev/kfd").exists(),
        in_docker=("nvidia" in engine().runtimes or bool(specifications)) if known else None,
    )


def decide(gpus: Gpus) -> list[Finding]:
    """A GPU that can't be used is a warning: the engines for the CPU work without."""
    names = [line.strip() for line in gpus.listing.out.splitlines() if line.strip()]
    if gpus.listing.good and names:
        findings = [ok(f"NVIDIA {_short(name)}") for name in names]
        if gpus.in_docker is False:
            findings.append(
                warn(
                    "Docker can't hand the GPU to containers: it has no runtime `nvidia` and no CDI specification.",
                    "Containers that ask for a GPU don't start.",
                    "sudo nvidia-ctk runtime configure --runtime=docker   # then restart Docker",
                )
            )
        from_it = [f"ENGINE={name}" for name, engine in engines.every().items() if engine.gpu]
        findings.append(note(f"{' and '.join(from_it)} serve from it, all others from the CPU."))
        return findings
    if gpus.listing.late:
        return [
            warn(
                "nvidia-smi doesn't answer.",
                "The driver hangs; programs that use the GPU will hang too.",
                "sudo dmesg | grep -i -e nvrm -e xid",
            )
        ]
    if gpus.listing.code not in (None, 0):
        said = (gpus.listing.out + gpus.listing.err).strip().splitlines()
        return [
            warn(
                f"nvidia-smi fails: {said[0] if said else f'exit code {gpus.listing.code}'}",
                "No program can use the GPU.",
                "sudo reboot   # after a driver upgrade; else install the driver that fits this kernel",
            )
        ]
    if gpus.cards:
        plural = "s" * (gpus.cards > 1)
        return [
            warn(
                f"{gpus.cards} NVIDIA card{plural} without a driver.",
                "No program can use the GPU.",
                "install NVIDIA's driver",
            )
        ]
    other = " There is an AMD GPU, which Drydock doesn't use." if gpus.amd else ""
    return [note(f"No NVIDIA GPU was found: engines for the CPU are used.{other}")]


def _is_card(device: Path) -> bool:
    return read(device / "vendor") == NVIDIA and read(device / "class").startswith("0x03")


def _short(line: str) -> str:
    name, memory, driver = ([part.strip() for part in line.split(",")] + ["", ""])[:3]
    return f"{name.removeprefix('NVIDIA ')}, {memory}, driver {driver}"


def _gpus(context: Context) -> list[Finding]:
    return decide(gather(context.engine))


CHECKS = (Check("gpu.found", _gpus),)
