"""Each GPU's condition, who holds its memory, how cards reach one another, and whether the container toolkit is there.

Nobody here has a GPU: what ``nvidia-smi`` prints is read as its own documentation and logs in public issues show it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.doctor.check import Check
from harness.doctor.context import Context
from harness.doctor.findings import Finding, bad, note, ok, warn
from harness.doctor.probing import ask
from harness.doctor.topics.gpu import DRIVER_SECONDS

FIELDS = (
    "index",
    "name",
    "persistence_mode",
    "ecc.mode.current",
    "ecc.errors.uncorrected.volatile.total",
    "mig.mode.current",
    "compute_mode",
    "memory.used",
    "memory.total",
    "temperature.gpu",
)
CARDS = ["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
HOLDERS = ["nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader,nounits"]
LINKS = ["nvidia-smi", "topo", "-p2p", "r"]
TOOLKIT = ["nvidia-ctk", "--version"]
# What a driver and a desktop take is no reason to speak.
HELD_PERCENT = 10
HOT_CELSIUS = 90
_NUMBER = re.compile(r"[0-9]{1,18}")
_CARD = re.compile(r"GPU[0-9]{1,6}")


@dataclass(frozen=True)
class Card:
    """One card.

    Attributes:
        persistence, ecc, mig: switched on; None where the card has no such thing.
        errors: uncorrected memory errors since the driver was loaded.
        mode: compute mode, ``Default`` as a rule.
        used_mib, total_mib: memory.
    """

    index: str
    name: str
    persistence: bool | None
    ecc: bool | None
    errors: int
    mig: bool | None
    mode: str
    used_mib: int
    total_mib: int
    celsius: int


@dataclass(frozen=True)
class Holder:
    """A process that holds memory of a card."""

    pid: int
    name: str
    mib: int


@dataclass(frozen=True)
class Cards:
    """What the driver tells.

    Attributes:
        blocked: pairs of cards that can't read each other's memory, with the driver's word for why.
        toolkit: version of NVIDIA's container toolkit, None where there is none.
    """

    cards: tuple[Card, ...] = ()
    holders: tuple[Holder, ...] = ()
    blocked: tuple[tuple[str, str, str], ...] = ()
    toolkit: str | None = None


def gather() -> Cards:
    """Ask the driver; without one nothing is found."""
    listing = ask(CARDS, DRIVER_SECONDS)
    cards = read_cards(listing.out) if listing.good else ()
    if not cards:
        return Cards()
    toolkit = re.search(r"\d+\.\d+[\w.+~-]*", ask(TOOLKIT, DRIVER_SECONDS).out)
    return Cards(
        cards,
        read_holders(ask(HOLDERS, DRIVER_SECONDS).out),
        read_links(ask(LINKS, DRIVER_SECONDS).out) if len(cards) > 1 else (),
        toolkit[0] if toolkit else None,
    )


def read_cards(text: str) -> tuple[Card, ...]:
    """The cards out of what ``CARDS`` prints; ``[N/A]`` and ``[Not Supported]`` are no value."""
    cards = []
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) != len(FIELDS) or not parts[0].isdecimal():
            continue
        index, name, persistence, ecc, errors, mig, mode, used, total, celsius = parts
        cards.append(
            Card(
                index,
                name.removeprefix("NVIDIA "),
                _switch(persistence),
                _switch(ecc),
                _count(errors),
                _switch(mig),
                mode,
                _count(used),
                _count(total),
                _count(celsius),
            )
        )
    return tuple(cards)


def read_holders(text: str) -> tuple[Holder, ...]:
    """Processes out of what ``HOLDERS`` prints."""
    rows = [[part.strip() for part in line.rsplit(",", 1)] for line in text.splitlines()]
    found = []
    for row in rows:
        pid, _, name = row[0].partition(",")
        if len(row) == 2 and _NUMBER.fullmatch(pid.strip()):
            found.append(Holder(int(pid), name.strip(), _count(row[1])))
    return tuple(found)


def read_links(text: str) -> tuple[tuple[str, str, str], ...]:
    """Pairs without a direct way out of the matrix of ``LINKS``; each pair once."""
    lines = [line.split() for line in text.splitlines() if re.match(r"\s*GPU\d{1,6}\s", line, re.ASCII)]
    if not lines or not all(_CARD.fullmatch(cell) for cell in lines[0]):
        return ()
    columns, found = lines[0], []
    for row in lines[1:]:
        for column, cell in zip(columns, row[1:], strict=False):
            if cell not in ("OK", "X") and int(column[3:]) > int(row[0][3:]):
                found.append((row[0], column, cell))
    return tuple(found)


def _switch(text: str) -> bool | None:
    return {"enabled": True, "disabled": False}.get(text.lower())


def _count(text: str) -> int:
    return int(text) if _NUMBER.fullmatch(text) else 0


def decide_cards(found: Cards) -> list[Finding]:
    """Each card's own condition."""
    if not found.cards:
        return []
    findings = []
    for card in found.cards:
        findings += _decide_card(card)
    dozing = [card.index for card in found.cards if card.persistence is False]
    if dozing:
        findings.append(
            warn(
                f"Persistence mode is off on GPU {', '.join(dozing)}.",
                "While nobody uses a card its driver is unloaded: each first call takes seconds, and error counters "
                "start anew.",
                "sudo systemctl enable --now nvidia-persistenced   # or: sudo nvidia-smi -pm 1",
            )
        )
    kinds = {card.name for card in found.cards}
    if len(kinds) > 1:
        findings.append(
            note(
                f"The cards are of different kinds: {', '.join(sorted(kinds))}.",
                "CUDA numbers them by speed and nvidia-smi by bus, so GPU 0 may be two different ones.",
                "export CUDA_DEVICE_ORDER=PCI_BUS_ID",
            )
        )
    return findings or [ok(f"{len(found.cards)} cards: no memory errors, not split, not exclusive, not too hot")]


def _decide_card(card: Card) -> list[Finding]:
    name = f"GPU {card.index} ({card.name})"
    findings = []
    if card.errors:
        findings.append(
            bad(
                f"{name} had {card.errors} uncorrected memory errors since its driver was loaded.",
                "Programs on it crash, or compute wrong numbers: log-probs and gradients among them.",
                f"nvidia-smi -q -i {card.index} -d ECC,ROW_REMAPPER   # then reset it, or have it replaced",
            )
        )
    if card.mig:
        findings.append(
            warn(
                f"{name} is split (MIG).",
                "The engines' multi-GPU modes, NCCL and peer-to-peer don't work across its parts.",
                f"sudo nvidia-smi -i {card.index} -mig 0   # while nobody uses it; needs a reset",
            )
        )
    if card.mode.lower() == "prohibited":
        findings.append(
            bad(
                f"Compute mode of {name} is Prohibited.",
                "No CUDA program can use it.",
                f"sudo nvidia-smi -i {card.index} -c DEFAULT",
            )
        )
    elif card.mode.lower().startswith("exclusive"):
        findings.append(
            warn(
                f"Compute mode of {name} is {card.mode}.",
                "One process at a time: a trainer and an engine can't share it, and a second one fails.",
                f"sudo nvidia-smi -i {card.index} -c DEFAULT",
            )
        )
    if card.celsius >= HOT_CELSIUS:
        findings.append(
            warn(
                f"{name} has {card.celsius} °C.",
                "It clocks down: this rank is the slowest, and all others wait for it.",
                f"nvidia-smi -q -i {card.index} -d PERFORMANCE,TEMPERATURE",
            )
        )
    if card.ecc is False:
        findings.append(
            note(f"ECC is off on {name}.", "Memory errors are not seen; numbers may be wrong without a word.")
        )
    return findings


def decide_memory(found: Cards) -> list[Finding]:
    """Memory that somebody holds already, and by whom."""
    if not found.cards:
        return []
    full = [card for card in found.cards if 100 * card.used_mib > HELD_PERCENT * max(1, card.total_mib)]
    if not full:
        return [ok(f"the memory of all {len(found.cards)} cards is free")]
    cards = ", ".join(f"GPU {card.index}: {card.used_mib:,} of {card.total_mib:,} MiB" for card in full)
    if not found.holders:
        return [
            warn(
                f"Memory is held, and the driver names no process ({cards}).",
                "A container's process, another user's, or one that ended badly: engines find too little memory.",
                "sudo fuser -v /dev/nvidia*   # who has the cards open",
            )
        ]
    who = ", ".join(f"PID {one.pid} {one.name} ({one.mib:,} MiB)" for one in found.holders[:4])
    more = f" and {len(found.holders) - 4} more" if len(found.holders) > 4 else ""
    return [
        warn(
            f"Memory is held ({cards}) by {who}{more}.",
            "An engine takes a share of the whole card, and fails where that isn't free.",
            "make up GPUS_INFERENCE=…   # other cards; or end what isn't needed",
        )
    ]


def decide_links(found: Cards) -> list[Finding]:
    """Whether cards can read one another's memory, as NCCL does when it may."""
    if len(found.cards) < 2:
        return []
    if not found.blocked:
        return [ok(f"all {len(found.cards)} cards reach one another directly")]
    pairs = ", ".join(f"{one}-{other} ({why})" for one, other, why in found.blocked[:4])
    more = f" and {len(found.blocked) - 4} more" if len(found.blocked) > 4 else ""
    return [
        warn(
            f"Cards can't reach one another directly: {pairs}{more}.",
            "NCCL copies through the machine's memory: TP=2 and more is slow. Where the BIOS has ACS or an IOMMU on, "
            "it may hang instead.",
            "nvidia-smi topo -m   # which are near; make up TP=1 DP=2 needs no such way",
        )
    ]


def decide_toolkit(found: Cards) -> list[Finding]:
    """Whether what hands GPUs to containers is installed."""
    if not found.cards:
        return []
    if found.toolkit is None:
        return [
            warn(
                "NVIDIA's container toolkit isn't installed (no nvidia-ctk).",
                "No container gets a GPU.",
                "install nvidia-container-toolkit, then sudo nvidia-ctk runtime configure --runtime=docker",
            )
        ]
    return [ok(f"NVIDIA container toolkit {found.toolkit}")]


def _cards(context: Context) -> list[Finding]:  # noqa: ARG001
    found = gather()
    return [*decide_cards(found), *decide_memory(found), *decide_links(found), *decide_toolkit(found)]


CHECKS = (Check("gpu.cards", _cards, limit=3.8),)
