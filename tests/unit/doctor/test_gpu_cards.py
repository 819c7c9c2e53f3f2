"""GPUs that nobody here has: what nvidia-smi prints, and what is made of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.doctor.findings import Finding
from harness.doctor.topics.gpu_cards import (
    Card,
    Cards,
    Holder,
    decide_cards,
    decide_links,
    decide_memory,
    decide_toolkit,
    read_cards,
    read_holders,
    read_links,
)

CARD = Card("0", "H100 80GB HBM3", True, True, 0, False, "Default", 4, 81559, 40)
GOOD = Cards((CARD, replace(CARD, index="1")), (), (), "1.17.8")

LISTING = """\
0, NVIDIA H100 80GB HBM3, Enabled, Enabled, 0, Disabled, Default, 4, 81559, 40
1, NVIDIA GeForce RTX 4090, Disabled, [N/A], [N/A], [N/A], Exclusive_Process, 20311, 24564, 61
No devices were found
"""
P2P = """\
 \tGPU0\tGPU1\tGPU2
 GPU0\tX\tOK\tCNS
 GPU1\tOK\tX\tNS
 GPU2\tCNS\tNS\tX

Legend:

  X    = Self
  OK   = Status Ok
  CNS  = Chipset not supported
"""


def signs(findings: list[Finding]) -> list[str]:
    return [finding.sign for finding in findings]


def test_what_nvidia_smi_lists_is_read() -> None:
    first, second = read_cards(LISTING)
    assert first == CARD
    assert second == Card("1", "GeForce RTX 4090", False, None, 0, None, "Exclusive_Process", 20311, 24564, 61)
    assert read_cards("") == ()


def test_who_holds_memory_is_read_also_with_a_comma_in_the_name() -> None:
    assert read_holders("4711, python3 a,b.py, 20000\n12, [Not Found], [N/A]\n\n") == (
        Holder(4711, "python3 a,b.py", 20000),
        Holder(12, "[Not Found]", 0),
    )


def test_the_matrix_of_direct_ways_is_read() -> None:
    assert read_links(P2P) == (("GPU0", "GPU2", "CNS"), ("GPU1", "GPU2", "NS"))
    assert read_links(P2P.replace("CNS", "OK").replace("NS", "OK")) == ()
    assert read_links("invalid option") == ()


def test_good_cards_are_fine_and_without_cards_nothing_is_said() -> None:
    for decide in (decide_cards, decide_memory, decide_links, decide_toolkit):
        assert signs(decide(GOOD)) == ["ok"]
        assert decide(Cards()) == []


@pytest.mark.parametrize(
    ("card", "sign", "words"),
    [
        (replace(CARD, errors=3), "bad", "3 uncorrected memory errors"),
        (replace(CARD, mig=True), "warn", "split (MIG)"),
        (replace(CARD, mode="Prohibited"), "bad", "Prohibited"),
        (replace(CARD, mode="Exclusive_Process"), "warn", "Exclusive_Process"),
        (replace(CARD, celsius=93), "warn", "93 °C"),
        (replace(CARD, ecc=False), "note", "ECC is off"),
        (replace(CARD, persistence=False), "warn", "Persistence mode is off on GPU 0"),
    ],
)
def test_a_card_that_is_not_as_it_should_be(card: Card, sign: str, words: str) -> None:
    (finding,) = decide_cards(Cards((card,)))
    assert finding.sign == sign
    assert words in finding.text


def test_a_card_without_ecc_or_mig_lacks_nothing() -> None:
    assert signs(decide_cards(Cards((replace(CARD, ecc=None, mig=None, persistence=None),)))) == ["ok"]


def test_different_cards_are_numbered_differently() -> None:
    (finding,) = decide_cards(Cards((CARD, replace(CARD, index="1", name="A100"))))
    assert "CUDA_DEVICE_ORDER" in finding.mend


def test_memory_that_somebody_holds() -> None:
    full = replace(GOOD, cards=(replace(CARD, used_mib=70_000), GOOD.cards[1]))
    (unknown,) = decide_memory(full)
    assert unknown.sign == "warn"
    assert "names no process" in unknown.text
    (known,) = decide_memory(replace(full, holders=tuple(Holder(n, "python", 10_000) for n in range(6))))
    assert known.sign == "warn"
    assert "PID 0 python (10,000 MiB)" in known.text
    assert "and 2 more" in known.text


def test_cards_that_reach_one_another_through_memory_only() -> None:
    (finding,) = decide_links(replace(GOOD, blocked=(("GPU0", "GPU1", "CNS"),)))
    assert finding.sign == "warn"
    assert "GPU0-GPU1 (CNS)" in finding.text
    assert decide_links(replace(GOOD, cards=(CARD,))) == []


def test_a_toolkit_that_is_missing() -> None:
    assert signs(decide_toolkit(replace(GOOD, toolkit=None))) == ["warn"]
