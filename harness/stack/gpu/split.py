"""Who gets which GPUs, and which engine is meant where none is named. Decides only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness import engines
from harness.errors import GpuUnfit
from harness.settings import Engine, Settings
from harness.stack.gpu.machine import Machine

if TYPE_CHECKING:
    # Not at run time: images need Docker's SDK, which isn't where the harness is only a wheel.
    from harness.stack.images.catalogue import Catalogue

NO_TOOLKIT = (
    "Docker can't hand this machine's NVIDIA GPUs to containers: it has no runtime `nvidia` and no CDI specification."
)
TOOLKIT_MEND = (
    "sudo nvidia-ctk runtime configure --runtime=docker   # of the NVIDIA Container Toolkit; then restart Docker"
)


@dataclass(frozen=True)
class Split:
    """GPUs by their numbers.

    Attributes:
        inference, train: may share cards; empty: none.
        why: for a person.
    """

    inference: tuple[str, ...] = ()
    train: tuple[str, ...] = ()
    why: str = ""

    @property
    def shared(self) -> bool:
        return bool(set(self.inference) & set(self.train))

    @property
    def any(self) -> bool:
        return bool(self.inference or self.train)


def engine_for(settings: Settings, machine: Machine, catalogue: Catalogue) -> Engine:
    """The engine: what was asked for; else on GPUs the framework's own pair, else SGLang; else the default.

    Raises:
        GpuUnfit: an engine for GPUs was asked for where there is none for it.
    """
    if settings.origin("engine") != "default":
        if settings.engine != "external" and not engines.load(settings.engine).cpu:
            _need_gpus(machine, f"ENGINE={settings.engine}")
        return settings.engine
    if not machine.gpus or not machine.way or settings.gpus_inference.strip() == "none":
        return settings.engine
    return "vllm" if next(iter(catalogue.pairs(settings.framework)), "sglang") == "vllm" else "sglang"


def split(settings: Settings, machine: Machine, engine: Engine) -> Split:
    """Share the cards out.

    Without any wish: one card is shared; of more, the first half serves and the second half trains. An engine for CPUs
    leaves all of them to training.

    Raises:
        GpuUnfit: a wish that can't be fulfilled.
    """
    there = tuple(gpu.index for gpu in machine.gpus)
    asked_inference = _ids("GPUS_INFERENCE", settings.gpus_inference, machine)
    asked_train = _ids("GPUS_TRAIN", settings.gpus_train, machine)
    known = engines.load(engine) if engine != "external" else None
    # Where it can serve from both, cards are taken if there are any.
    on_gpu = bool(known and known.gpu) and (not (known and known.cpu) or (bool(there) and bool(machine.way)))
    if asked_inference and not on_gpu:
        raise GpuUnfit(
            f"GPUS_INFERENCE={settings.gpus_inference} is of no use to ENGINE={engine}: it serves from the CPU here.",
            mend="make up ENGINE=sglang   # or ENGINE=vllm, or without GPUS_INFERENCE=",
        )
    if not there or not machine.way:
        return Split()
    if not on_gpu:
        train = there if asked_train is None else asked_train
        return Split((), train, f"ENGINE={engine} serves from the CPU: training has {_said(train)}")
    if len(there) == 1 and asked_inference is None and asked_train is None:
        return Split(there, there, "one card, shared by serving and training")
    if asked_inference is None:
        left = tuple(one for one in there if one not in (asked_train or ()))
        half = _parts(settings) or (len(there) // 2 if asked_train is None else len(left))
        asked_inference = left[:half] if left else there
    if asked_train is None:
        asked_train = tuple(one for one in there if one not in asked_inference)
    if not asked_inference:
        raise GpuUnfit(
            f"GPUS_INFERENCE=none leaves ENGINE={engine} without a card.",
            mend="make up ENGINE=llamacpp GPUS_INFERENCE=none   # serves from the CPU",
        )
    return Split(
        asked_inference, asked_train, f"serving has {_said(asked_inference)}, training has {_said(asked_train)}"
    )


def of_node(settings: Settings, machine: Machine) -> tuple[str, ...]:
    """The cards of a machine that is a node of another's cluster: all of them unless GPUS_TRAIN says otherwise.

    Raises:
        GpuUnfit: a wish that can't be fulfilled.
    """
    asked = _ids("GPUS_TRAIN", settings.gpus_train, machine)
    if asked is not None:
        return asked
    return tuple(gpu.index for gpu in machine.gpus) if machine.way else ()


def _said(ids: tuple[str, ...]) -> str:
    return ("GPU " if len(ids) == 1 else "GPUs ") + ",".join(ids) if ids else "none"


def _parts(settings: Settings) -> int:
    """Cards that the wished parallelism takes; 0 where none is wished."""
    wished = (settings.tp, settings.pp, settings.dp)
    return (settings.tp or 1) * (settings.pp or 1) * (settings.dp or 1) if any(wished) else 0


def _ids(name: str, text: str, machine: Machine) -> tuple[str, ...] | None:
    """The cards that a setting names; None where it says nothing."""
    value = text.strip()
    if not value:
        return None
    if value == "none":
        return ()
    _need_gpus(machine, f"{name}={text}")
    there = [gpu.index for gpu in machine.gpus]
    if value == "all":
        return tuple(there)
    ids = [part.strip() for part in value.split(",")]
    for one in ids:
        if not re.fullmatch(r"\d+", one):
            raise GpuUnfit(f"{name}={text}: {one or 'nothing'} is no number of a GPU.", mend=f"make up {name}=0,1")
    if len(set(ids)) < len(ids):
        twice = next(one for one in ids if ids.count(one) > 1)
        raise GpuUnfit(f"{name}={text} names GPU {twice} twice.", mend=f"make up {name}={','.join(dict.fromkeys(ids))}")
    missing = [one for one in ids if one not in there]
    if missing:
        raise GpuUnfit(
            f"{name}={text}: there is no GPU {','.join(missing)}, only {_said(tuple(there))}.",
            mend=f"make up {name}={','.join(there)}",
        )
    return tuple(ids)


def _need_gpus(machine: Machine, what: str) -> None:
    """Refuse what needs GPUs where there are none, with the reason that fits."""
    if machine.gpus and machine.way:
        return
    if machine.gpus:
        raise GpuUnfit(f"{what}: {NO_TOOLKIT}", mend=TOOLKIT_MEND)
    if machine.trouble:
        raise GpuUnfit(f"{what}: the NVIDIA driver is of no use now: {machine.trouble}.")
    if machine.amd:
        raise GpuUnfit(
            f"{what}: this machine has an AMD GPU, and Drydock's GPU images are for NVIDIA only.",
            mend="make up ENGINE=external OPENAI_BASE_URL=…   # an engine that you start with ROCm yourself",
        )
    raise GpuUnfit(
        f"{what} needs an NVIDIA GPU, and there is none on this machine.",
        mend="make up   # serves from the CPU; or ENGINE=external OPENAI_BASE_URL=… for a server elsewhere",
    )
