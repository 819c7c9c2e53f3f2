"""The verdict on recorded arrays: each planted fault is named, and nothing is named where nothing is wrong."""

from __future__ import annotations

import math
import random

import pytest

from harness.compare.evidence import Evidence, Trial, Tried, Verdict
from harness.compare.model import Sampling
from harness.compare.reasons import decide, trials
from harness.compare.tokens import TokenReport, compare
from tests.unit.compare.recorded import Recorded, agreeing, changed, colder, evidence


def only(found: Evidence) -> tuple[str, str]:
    """The one reason of a verdict that they don't agree."""
    verdict = decide(found)
    assert not verdict.agree
    assert verdict.exit_code == 1
    (reason,) = verdict.reasons
    assert reason.because or reason.next
    return reason.id, reason.certainty


def test_the_same_model_agrees() -> None:
    for seed in range(20):
        assert decide(evidence(agreeing(seed=seed))) == Verdict(agree=True)


def test_other_weights_are_told_from_rounding() -> None:
    recorded = agreeing()
    recorded.decode = recorded.prefill = changed(recorded.decode, 0.4)
    assert only(evidence(recorded)) == ("weights", "likely")


def flat(by: float) -> Evidence:
    """As a model that is sure of nothing: probabilities are so small that limits on them let everything pass."""
    recorded = agreeing()
    for name in ("decode", "prefill", "reference", "other"):
        setattr(recorded, name, [[value - 9 for value in row] for row in getattr(recorded, name)])
    recorded.decode = recorded.prefill = changed(recorded.decode, by)
    found = evidence(recorded)
    assert all(one.kept for one in found.held if one.limit.binding)
    return found


def test_another_model_is_one_also_where_a_limit_is_kept() -> None:
    found = flat(3.0)
    found.early = True
    assert only(found) == ("weights", "likely")


def test_weights_known_to_be_others_are_named_within_limits_too() -> None:
    found = flat(0.5)
    assert decide(found).agree
    found.files = ["config.json (other content)"]
    assert decide(found).agree
    found.files = ["model.safetensors (other content)"]
    assert only(found) == ("weights", "certain")
    # The same weights in another dtype are another file, and no other model.
    found = evidence(agreeing())
    found.files = ["model.safetensors (100 and 200 bytes)"]
    assert decide(found).agree


def test_with_one_dtype_it_stays_undecided() -> None:
    recorded = agreeing()
    recorded.decode = recorded.prefill = changed(recorded.decode, 0.4)
    verdict = decide(evidence(recorded, with_other=False))
    assert [(reason.id, reason.certainty) for reason in verdict.reasons] == [
        ("weights", "undecided"),
        ("dtype", "undecided"),
    ]


def test_a_strict_limit_broken_by_rounding_is_rounding() -> None:
    assert only(evidence(agreeing(rounding=0.1), projects=("nemo-rl",))) == ("dtype", "likely")


@pytest.mark.parametrize("by", [-1, 1])
def test_log_probs_beside_their_tokens(by: int) -> None:
    recorded = agreeing()
    recorded.decode = [row[by:] + row[:by] for row in recorded.decode]
    recorded.prefill = recorded.decode
    assert only(evidence(recorded)) == ("shifted", "certain")


def test_what_brings_them_together_is_the_reason() -> None:
    recorded = agreeing()
    recorded.decode = colder(recorded.decode, 0.7)
    before = evidence(recorded).judged.abs_mean
    tried = [
        Tried(Trial("temperature", "0.7", {"temperature": 0.7}), before, 0.03),
        Tried(Trial("temperature", "0.8", {"temperature": 0.8}), before, before * 0.5),
        Tried(Trial("top_p", "0.9", {"top_p": 0.9}), before, math.inf),
    ]
    assert only(evidence(recorded, tried=tried)) == ("temperature", "certain")


def test_two_that_fit_alike_are_no_certainty() -> None:
    recorded = agreeing()
    recorded.decode = changed(recorded.decode, 0.4)
    before = evidence(recorded).judged.abs_mean
    tried = [
        Tried(Trial("top_p", "0.9", {"top_p": 0.9}), before, 0.05),
        Tried(Trial("top_k", "20", {"top_k": 20}), before, 0.052),
    ]
    assert only(evidence(recorded, tried=tried))[1] == "likely"


def test_an_engine_that_contradicts_itself() -> None:
    recorded = agreeing()
    recorded.decode = changed(recorded.decode, 0.5)
    assert only(evidence(recorded)) == ("engine-decode", "likely")


def test_late_positions_only() -> None:
    recorded = agreeing(samples=16, tokens=400)
    off = changed(recorded.decode, 1.0)
    recorded.decode = recorded.prefill = [
        row[:200] + other[200:] for row, other in zip(recorded.decode, off, strict=True)
    ]
    assert only(evidence(recorded)) == ("positions", "likely")


def test_some_samples_only() -> None:
    recorded = agreeing(samples=40)
    off = changed(recorded.decode, 1.5)
    recorded.decode = recorded.prefill = [*off[:4], *recorded.decode[4:]]
    assert only(evidence(recorded)) == ("samples", "likely")


def test_after_one_token_only() -> None:
    recorded = agreeing()
    drawn = random.Random(4)
    for output, decode, prefill in zip(recorded.outputs, recorded.decode, recorded.prefill, strict=True):
        place = drawn.randrange(1, len(output) - 1)
        output[place] = 1007
        decode[place + 1] = prefill[place + 1] = decode[place + 1] - 8.0
    assert only(evidence(recorded)) == ("token", "likely")


def test_infinite_log_probs_are_said_as_such() -> None:
    recorded = agreeing()
    recorded.decode[0][3] = -math.inf
    recorded.decode[1][0] = math.nan
    found = evidence(recorded)
    assert found.judged.not_finite == 2
    assert only(found) == ("not-finite", "certain")


def test_other_tokens_fail_although_log_probs_agree() -> None:
    pieces = {7: "<bos>", 1: "Hi", 2: " there", 3: "  there", 4: "Hi there", 5: "User: "}
    cases = {
        "bos": ([7, 1, 2], [1, 2]),
        "whitespace": ([1, 3], [1, 2]),
        "retokenised": ([4], [1, 2]),
        "template": ([5, 1, 2], [1, 2]),
    }
    for kind, (server, reference) in cases.items():
        difference = compare(
            1, server, reference, bos=7,
            server_pieces=[pieces[token] for token in server],
            reference_pieces=[pieces[token] for token in reference],
        )  # fmt: skip
        assert difference.kind == kind
        assert only(evidence(agreeing(), tokens=TokenReport(rendered=1, differences=[difference]))) == (kind, "certain")


def test_nothing_to_compare_is_no_agreement() -> None:
    nothing = Recorded([], [], [], [])
    assert not decide(evidence(nothing)).agree


def test_what_was_asked_for_is_tried_first() -> None:
    found = evidence(agreeing(), sampling=Sampling(temperature=0.85, top_p=0.93))
    kinds = [(trial.kind, trial.what) for trial in trials(found, bos=None)]
    assert kinds[0] == ("sampling", "temperature 0.85 and top_p 0.93")
    assert ("temperature", "0.85") in kinds
    assert ("top_p", "0.93") in kinds
    # The theta that the model has is no explanation.
    assert not any(what.startswith("rope_theta 100000 ") for _, what in kinds)
