"""Why two sides differ, by elimination. Pure.

What is asked in order: are there log-probs at all; the same tokens; one token beside; other sampling parameters, other
rope; decoding against reading; no more than rounding; only some samples, positions or tokens; else the weights. A
reason is *certain* where undoing it brings both sides together, *likely* where all else was looked at and excluded, and
*undecided* where two are left.
"""

from __future__ import annotations

import math

from harness.compare.evidence import Certainty, Evidence, Reason, Trial, Verdict
from harness.compare.figures import Figures, percentile
from harness.compare.limits import broken

# Mean |d| below which there is nothing to explain, whatever rounding does.
FLOOR = 1e-3
# Of what rounding makes (mean |d| of the reference in two precisions): up to here it is rounding, from there it isn't.
ROUNDING, MORE_THAN_ROUNDING = 2.0, 4.0


def decide(evidence: Evidence) -> Verdict:
    """The verdict."""
    found = [reason for look in (_not_finite, _tokens) if (reason := look(evidence))]
    # A limit on probabilities lets anything pass where all of them are small.
    differs = bool(broken(evidence.held)) or evidence.judged.tokens == 0 or evidence.early
    if differs and not any(reason.id in ("not-finite", "vocabulary") for reason in found):
        found += _log_probs(evidence)
    elif suspicious(evidence):
        # Limits are wide where distributions are flat; what is certainly wrong is wrong within them, too.
        reason = _shifted(evidence) or _undone(evidence)
        if reason is None and _other_files(evidence):
            reason = _weights(evidence, "certain")
        found += [reason] if reason is not None and reason.certainty == "certain" else []
    return Verdict(agree=not found and not differs, reasons=found)


def suspicious(evidence: Evidence) -> bool:
    """Whether the difference is more than rounding makes, whatever the limits say."""
    return not evidence.against and _size(evidence) == "more"


def _not_finite(evidence: Evidence) -> Reason | None:
    figures = evidence.judged
    if not figures.not_finite:
        return None
    cut = evidence.sampling.top_p < 1 or evidence.sampling.top_k
    return Reason(
        "not-finite",
        "certain",
        f"{figures.not_finite} of {figures.not_finite + figures.tokens} sampled tokens have NaN or −inf as log-prob",
        ["a token that was sampled had a probability; −inf says that it was cut off" if cut else
         "a token that was sampled had a probability"],
        ["look at the worst samples for the first such token; what returns NaN once does so in training, too"],
    )  # fmt: skip


def _tokens(evidence: Evidence) -> Reason | None:
    report = evidence.tokens
    if report.vocabulary:
        return Reason(
            "vocabulary", "certain", f"the server has another tokenizer than the reference: {report.vocabulary}",
            ["token ids mean different things on both sides, so nothing else can be compared"],
            ["REFERENCE=FOLDER   # the model that the server serves; make status says which"],
        )  # fmt: skip
    if not report.differences:
        return None
    (kind, times), *_ = report.kinds.most_common()
    one = next(one for one in report.differences if one.kind == kind)
    names = {
        "bos": "the token that begins a text is there on one side only",
        "whitespace": "white space is different",
        "retokenised": "the same text is cut into other tokens",
        "template": "the chat templates differ",
        "count": "they don't have the same number of tokens",
    }
    asked = report.rendered + report.counted
    return Reason(
        kind if kind != "count" else "template",
        "certain" if kind != "count" else "likely",
        f"server and reference make different tokens of {times} of {asked} conversations: {names[kind]}",
        [
            f"line {one.line}, token {one.place}: server {one.server!r} ({one.server_count} tokens), "
            f"reference {one.reference!r} ({one.reference_count} tokens)"
        ],
        ["give both the same chat template (vLLM and SGLang: --chat-template FILE), or send token ids in training"],
    )


def _log_probs(evidence: Evidence) -> list[Reason]:
    """Why the log-probs of the same tokens differ."""
    if evidence.against:
        return [_the_other_way(evidence)]
    if reason := _shifted(evidence) or _undone(evidence):
        return [reason]
    inside, reading = evidence.inside, evidence.reading
    noise = max(FLOOR, 3 * (evidence.rounding.abs_mean if evidence.rounding else 0.0))
    if inside is not None and reading is not None and inside.abs_mean > max(noise, 2 * reading.abs_mean):
        return [_of_decoding(evidence, inside, reading)]
    size = _size(evidence)
    place = _some_only(evidence)
    if size == "rounding":
        return [_rounding(evidence)]
    if place is not None:
        return [place]
    if size == "more":
        return [_weights(evidence, "certain" if _other_files(evidence) else "likely")]
    if size == "between":
        return [_weights(evidence, "undecided"), _rounding(evidence, "undecided")]
    return [_weights(evidence, "undecided"), Reason(
        "dtype", "undecided", "or both sides round differently",
        [], ["DTYPE=bfloat16,float32   # runs the reference in both, which tells rounding from weights"],
    )]  # fmt: skip


_OTHER_WAY = {
    "batch": ("batch", "what the engine says depends on how many requests it has at once",
              "batch-invariant kernels (vLLM: VLLM_BATCH_INVARIANT=1, SGLang: --enable-deterministic-inference)"),
    "cache": ("cache", "what the engine says depends on whether the prompt comes from its prefix cache",
              "run the rollout without it (vLLM: --no-enable-prefix-caching) and see whether rewards change"),
    "server": ("servers", "the two servers differ: weights, dtype or flags",
               "make compare on each alone says which of them is off from the trainer's model"),
    "run": ("changed", "the server doesn't say what it said then: weights, dtype or flags have changed",
            "after a weight update that is meant to be so; without one, look at what was restarted"),
}  # fmt: skip


def _the_other_way(evidence: Evidence) -> Reason:
    """Only one thing was different, so that is it, as far as one run can tell."""
    id_, what, mend = _OTHER_WAY[evidence.against]
    because = [f"mean |d| {evidence.judged.abs_mean:.3g} over {evidence.judged.tokens} tokens"]
    if evidence.against == "batch" and evidence.reading is not None:
        because.append(f"reading the same tokens alone and in a batch: mean |d| {evidence.reading.abs_mean:.3g}")
    return Reason(id_, "likely", what, because, [mend])


def _shifted(evidence: Evidence) -> Reason | None:
    shifted = evidence.profile.shifted
    straight = shifted.get(0, math.nan)
    for shift in (-1, 1):
        moved = shifted.get(shift, math.nan)
        if moved < 0.3 * straight:
            side = "one token too late" if shift == 1 else "one token too early"
            return Reason(
                "shifted", "certain", f"the engine's log-probs stand {side}",
                [f"mean |d| is {straight:.3g} as they are, and {moved:.3g} moved by one token"],
                ["a log-prob belongs to the token that was sampled, not to the one before or after it: look at where "
                 "log-probs and tokens are put together"],
            )  # fmt: skip
    return None


_UNDONE = {
    "temperature": "the engine's log-probs are those of temperature {}, not of the model",
    "top_p": "the engine's log-probs are renormalised over top_p {}",
    "top_k": "the engine's log-probs are renormalised over top_k {}",
    "sampling": "the engine's log-probs are those after {}, not the model's own",
    "rope": "the engine and the reference turn positions differently: {}",
    "bos": "one side has a token at the beginning that the other hasn't: {}",
}
_NEXT = {
    "rope": "compare rope_theta and rope scaling in both config.json; a server may be given its own (--hf-overrides)",
    "bos": "compare the first token ids of a prompt on both sides",
}


def _undone(evidence: Evidence) -> Reason | None:
    """What brings both sides together when it is done on the reference's side as well."""
    fitting = [one for one in evidence.tried if one.after < 0.4 * one.before]
    if not fitting:
        return None
    best = min(fitting, key=lambda one: one.after)
    noise = max(FLOOR, 3 * (evidence.rounding.abs_mean if evidence.rounding else 0.0))
    other = [one for one in fitting if one.trial.kind != best.trial.kind and one.after < 1.3 * best.after]
    sure = best.after <= max(noise, 0.1 * best.before) and not other
    next_ = _NEXT.get(
        best.trial.kind,
        "sample with temperature 1, top_p 1 and top_k off, or have the engine return the model's own log-probs "
        "(vLLM: --logprobs-mode raw_logprobs), or divide the trainer's logits alike",
    )
    return Reason(
        best.trial.kind.replace("_", "-"),
        "certain" if sure else "likely",
        _UNDONE[best.trial.kind].format(best.trial.what),
        [f"with it on the reference's side mean |d| falls from {best.before:.3g} to {best.after:.3g}"]
        + [f"{one.trial.what} would do nearly as well ({one.after:.3g})" for one in other[:2]],
        [next_],
    )


def _of_decoding(evidence: Evidence, inside: Figures, reading: Figures) -> Reason:
    changed = "" if evidence.sampling.plain else " Sampling parameters that are not 1 may be part of it."
    return Reason(
        "engine-decode",
        "likely",
        "the engine contradicts itself: what it says while sampling isn't what it says when it reads the same tokens",
        [
            f"decode against prefill: mean |d| {inside.abs_mean:.3g}; "
            f"prefill against the trainer: {reading.abs_mean:.3g}" + changed
        ],
        [
            "run it again without the engine's shortcuts: --enforce-eager, no prefix cache, no speculative decoding",
            "AGAINST=batch   # whether it is the batch's size\nAGAINST=cache   # whether it is the prefix cache",
        ],
    )


def _other_files(evidence: Evidence) -> bool:
    """Whether the server is known to have been started from other weights."""
    return any(".safetensors" in name for name in evidence.files)


def _size(evidence: Evidence) -> str:
    """The difference by what rounding makes of the same model."""
    if evidence.rounding is None or not math.isfinite(evidence.rounding.abs_mean):
        return "unknown"
    nearest = min(figures.abs_mean for figures in (evidence.judged, evidence.other) if figures is not None)
    unit = max(evidence.rounding.abs_mean, 1e-6)
    if nearest <= ROUNDING * unit:
        return "rounding"
    return "more" if nearest > MORE_THAN_ROUNDING * unit else "between"


def _rounding(evidence: Evidence, certainty: Certainty = "likely") -> Reason:
    assert evidence.rounding is not None
    first, second = (*evidence.dtypes, "?", "?")[:2]
    because = [
        f"the reference in {first} against itself in {second}: mean |d| {evidence.rounding.abs_mean:.3g}; "
        f"the engine against it: {evidence.judged.abs_mean:.3g}"
    ]
    if evidence.other is not None:
        because.append(f"the engine against the reference in {second}: {evidence.other.abs_mean:.3g}")
    return Reason(
        "dtype", certainty, "the difference is as large as rounding makes it: the dtypes differ, or both are coarse",
        because,
        ["give engine and trainer the same dtype; a last layer in float32 takes away most of it",
         "truncated importance sampling bears what is left (see the share that it would cut)"],
    )  # fmt: skip


def _weights(evidence: Evidence, certainty: Certainty) -> Reason:
    because = [f"the server was started from other files: {', '.join(evidence.files)}"] if evidence.files else []
    if evidence.rounding is not None and evidence.rounding.abs_mean:
        times = evidence.judged.abs_mean / evidence.rounding.abs_mean
        because.append(f"the difference is {times:.1f} times what rounding makes of the reference itself")
    if evidence.inside is not None:
        because.append(
            f"the engine agrees with itself: decode against prefill, mean |d| {evidence.inside.abs_mean:.3g}"
        )
    if evidence.tried:
        best = min(evidence.tried, key=lambda one: one.after if math.isfinite(one.after) else math.inf)
        because.append(
            f"nothing that was tried brings them together (best: {best.trial.kind} {best.trial.what}, "
            f"{best.before:.3g} to {best.after:.3g})"
        )
    if evidence.judged.pearson < 0.5:
        because.append(
            f"probabilities hardly go together (Pearson {evidence.judged.pearson:.2f}): another model altogether"
        )
    return Reason(
        "weights", certainty,
        "the weights differ: another model or revision, quantised ones, or an update that didn't arrive",
        because,
        ["make fingerprint   # which revision is served", "compare the checksums of both folders; a server that was "
         "given new weights in training may still have the old ones"],
    )  # fmt: skip


def _some_only(evidence: Evidence) -> Reason | None:
    """Whether the difference sits in a few samples, late positions or at one token."""
    return _at_tokens(evidence) or _at_positions(evidence) or _in_samples(evidence)


def _at_tokens(evidence: Evidence) -> Reason | None:
    profile, tokens = evidence.profile, max(1, evidence.judged.tokens)
    for rows, where in ((profile.tokens, "at"), (profile.after, "after")):
        if rows:
            token, times, mean, share = rows[0]
            if share > 0.5 and times / tokens < 0.1 and times >= 3:
                return Reason(
                    "token", "likely", f"the difference sits {where} one token: {token}",
                    [f"{times} of {tokens} tokens carry {share:.0%} of it (mean |d| {mean:.3g} there)"],
                    ["special tokens that were added later have other embeddings, or none, on one side"],
                )  # fmt: skip
    return None


def _at_positions(evidence: Evidence) -> Reason | None:
    rows = [row for row in evidence.profile.positions if row[2] >= 20]
    if len(rows) < 3:
        return None
    early = min(rows[0][3], rows[1][3])
    late = [row for row in rows if row[3] > 5 * max(early, FLOOR)]
    if not late or late[-1] is not rows[-1] or early > 0.1:
        return None
    start = late[0][0]
    return Reason(
        "positions", "likely", f"the difference grows with the position: from token {start} on",
        [f"mean |d| {early:.3g} at first, {rows[-1][3]:.3g} from token {rows[-1][0]} on"],
        ["rope scaling, a sliding window or the length that the model was loaded for: compare both config.json with "
         "what the server was started with"],
    )  # fmt: skip


def _in_samples(evidence: Evidence) -> Reason | None:
    samples = evidence.profile.samples
    if len(samples) < 8:
        return None
    usual = percentile([mean for _, mean, _ in samples], 0.5)
    few = sorted((one for one in samples if one[1] > 5 * max(usual, FLOOR)), key=lambda one: -one[1])
    rest = [one for one in samples if one[1] <= 5 * max(usual, FLOOR)]
    total = sum(mean * count for _, mean, count in samples)
    share = sum(mean * count for _, mean, count in few) / total if total else 0.0
    if not few or len(few) > len(samples) / 4 or share < 0.6:
        return None
    rest_mean = sum(mean * count for _, mean, count in rest) / max(1, sum(count for _, _, count in rest))
    numbers = ", ".join(str(number) for number, _, _ in few[:5])
    return Reason(
        "samples", "likely", f"only some samples differ: {numbers}{' …' if len(few) > 5 else ''}",
        [f"{len(few)} of {len(samples)} samples carry {share:.0%} of it; mean |d| of the rest {rest_mean:.3g}"],
        ["look at what they have in common: length, language, tools, a turn that came from the prefix cache"],
    )  # fmt: skip


def trials(evidence: Evidence, *, bos: int | None) -> list[Trial]:
    """What is worth trying on the reference's side once the limits aren't kept."""
    found: list[Trial] = []
    asked = evidence.sampling
    if not asked.plain:
        view: dict[str, float] = {}
        if asked.temperature not in (0, 1):
            view["temperature"] = asked.temperature
        if asked.top_p < 1:
            view["top_p"] = asked.top_p
        if asked.top_k:
            view["top_k"] = asked.top_k
        if len(view) > 1:
            words = " and ".join(f"{name} {value:g}" for name, value in view.items())
            found.append(Trial("sampling", words, view))
    for name, values in _GRID.items():
        own = getattr(asked, name)
        for value in dict.fromkeys([*([own] if own not in (0, 1) else []), *values]):
            found.append(Trial(name, f"{value:g}", {name: value}))
    theta = evidence.rope.get("rope_theta")
    if theta:
        found += [
            Trial("rope", f"rope_theta {value:g} instead of {theta:g}", change={"rope_theta": value})
            for value in _THETAS
            if value != theta
        ]
    if evidence.rope.get("rope_type", "default") != "default":
        found.append(
            Trial("rope", f"without rope scaling ({evidence.rope['rope_type']})", change={"rope_scaling": None})
        )
    if bos is not None:
        found += [Trial("bos", "a BOS more", bos=1), Trial("bos", "a BOS less", bos=-1)]
    return found


_GRID: dict[str, tuple[float, ...]] = {
    "temperature": (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.1, 1.2, 1.3, 1.5, 2.0),
    "top_p": (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99),
    "top_k": (5, 10, 20, 40, 50, 100),
}
# What published models have.
_THETAS = (10_000.0, 100_000.0, 500_000.0, 1_000_000.0, 5_000_000.0, 10_000_000.0)
