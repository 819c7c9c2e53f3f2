"""What happens in which order: decided by the seed alone, so that a run can be had again."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

VERBS = ("up", "check", "hang-dump", "down")


@dataclass(frozen=True)
class Step:
    """One verb with one fault in the middle of it.

    Attributes:
        number: from 1.
        cold: `up` starts from nothing; else one container was killed before. The other verbs find the stack up.
        moment: when, as a share of the time that this verb took undisturbed.
        seed: for what the fault itself chooses, such as a container.
    """

    number: int
    verb: str
    fault: str
    cold: bool
    moment: float
    seed: int


def plan(seed: int, faults: Iterable[str], first: int = 1, last: int = 34) -> list[Step]:
    """Steps of a seed from the first to the last wanted.

    Faults are dealt out in rounds, each once in a round and with another verb in the next: so a run of one round has
    every fault and all verbs alike, and one of four rounds has every pair of both.
    """
    faults = list(faults)
    steps: list[Step] = []
    deck: list[tuple[str, str]] = []
    for number in range(1, last + 1):
        if not deck:
            rounds, within = divmod((number - 1) // len(faults), len(VERBS))
            mixed = random.Random(f"{seed} faults {rounds}").sample(faults, len(faults))
            deck = [(VERBS[(place + within) % len(VERBS)], fault) for place, fault in enumerate(mixed)]
            random.Random(f"{seed} round {number}").shuffle(deck)
        verb, fault = deck.pop()
        chance = random.Random(f"{seed} step {number}")
        steps.append(
            Step(
                number,
                verb,
                fault,
                chance.random() < 0.5,
                round(chance.uniform(0.03, 0.6), 3),
                chance.randrange(2**31),
            )
        )
    return steps[first - 1 :]


def wanted(text: str, default: int = 34) -> tuple[int, int]:
    """First and last step out of ``STEPS=``: ``12`` is the first twelve, ``7-7`` the seventh alone.

    Raises:
        ValueError: it is neither.
    """
    begin, dash, end = text.strip().partition("-")
    first, last = (int(begin), int(end)) if dash else (1, int(begin or default))
    if not 1 <= first <= last:
        raise ValueError(f"STEPS={text}: a number of steps, or FIRST-LAST")
    return first, last
