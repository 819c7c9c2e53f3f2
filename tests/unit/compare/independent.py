"""The figures of docs/compare.md once more, from saved log-probs, by another hand: plain loops, nothing of ours.

``python tests/unit/compare/independent.py runs/FOLDER`` recomputes those of a whole run and compares them with its
result.json; exit code 1 where one is off by more than 1e-6.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any


def figures(pairs: list[tuple[list[float], list[float]]]) -> dict[str, float]:
    """Figures of samples, each the engine's and the trainer's log-probs of the same tokens."""
    ds: list[float] = []
    ps: list[float] = []
    qs: list[float] = []
    ppl: list[float] = []
    log_ppl: list[float] = []
    seq: list[float] = []
    left_out = 0
    for engine, trainer in pairs:
        own: list[float] = []
        for i in range(len(engine)):
            if math.isnan(engine[i]) or math.isnan(trainer[i]) or math.isinf(engine[i]) or math.isinf(trainer[i]):
                left_out = left_out + 1
                continue
            own.append(trainer[i] - engine[i])
            ps.append(math.exp(engine[i]))
            qs.append(math.exp(trainer[i]))
        if own:
            total = 0.0
            for d in own:
                total = total + d
            ppl.append(math.exp(bound(-total / len(own))))
            log_ppl.append(abs(-total / len(own)))
            seq.append(math.exp(2 * bound(total)))
        ds = ds + own
    n = len(ds)
    k1 = k3 = mult = prob = chi = rho_sum = 0.0
    prob_max = abs_max = 0.0
    outside = 0
    for i in range(n):
        rho = math.exp(bound(ds[i]))
        k1 = k1 - ds[i]
        k3 = k3 + (rho - 1 - ds[i])
        mult = mult + math.exp(bound(abs(ds[i])))
        prob = prob + abs(ps[i] - qs[i])
        prob_max = max(prob_max, abs(ps[i] - qs[i]))
        abs_max = max(abs_max, abs(ds[i]))
        chi = chi + rho * rho
        rho_sum = rho_sum + rho
        if rho < 0.5 or rho > 2:
            outside = outside + 1
    mean_p, mean_q = sum(ps) / n, sum(qs) / n
    up = sum((ps[i] - mean_p) * (qs[i] - mean_q) for i in range(n))
    down = math.sqrt(sum((p - mean_p) ** 2 for p in ps)) * math.sqrt(sum((q - mean_q) ** 2 for q in qs))
    ordered = sorted(abs(d) for d in ds)
    place = 0.99 * (n - 1)
    low = int(place)
    high = low + 1 if low + 1 < n else low
    return {
        "tokens": n,
        "samples": len(ppl),
        "not_finite": left_out,
        "abs_max": abs_max,
        "abs_mean": sum(ordered) / n,
        "abs_p99": ordered[low] * (1 - (place - low)) + ordered[high] * (place - low),
        "k1": k1 / n,
        "k3": k3 / n,
        "mult_prob_error": mult / n,
        "prob_mean": prob / n,
        "prob_max": prob_max,
        "pearson": up / down if down > 0 else math.nan,
        "ppl_ratio": sum(ppl) / len(ppl),
        "log_ppl_abs": sum(log_ppl) / len(log_ppl),
        "chi2_token": chi / n - 1,
        "chi2_seq": sum(seq) / len(seq) - 1,
        "outside": outside / n,
        "ess": rho_sum * rho_sum / (n * chi),
    }


def shares(pairs: list[tuple[list[float], list[float]]], cap: float) -> tuple[float, float]:
    """Of all tokens: what truncation at a cap cuts, and what masking at it leaves out."""
    n = over = beyond = 0
    for engine, trainer in pairs:
        for a, b in zip(engine, trainer):  # noqa: B905
            if math.isfinite(a) and math.isfinite(b):
                rho = math.exp(bound(b - a))
                n = n + 1
                if rho > cap:
                    over = over + 1
                if rho > cap or rho < 1 / cap:
                    beyond = beyond + 1
    return over / n, beyond / n


def tops(pairs: list[tuple[list[int], list[int]]]) -> dict[str, float]:
    """Agreement on the most likely token."""
    same = everything = 0
    until: list[int] = []
    for engine, trainer in pairs:
        first = len(engine)
        for i in range(len(engine)):
            everything = everything + 1
            if engine[i] == trainer[i]:
                same = same + 1
            elif first == len(engine):
                first = i
        until.append(first)
    until.sort()
    middle = (len(until) - 1) / 2
    median = (until[int(middle)] + until[math.ceil(middle)]) / 2
    whole = sum(1 for (engine, trainer) in pairs if engine == trainer)
    return {"greedy": same / everything, "divergence": median, "undiverged": whole / len(pairs)}


def bound(x: float) -> float:
    """Within ±20."""
    if x > 20:
        return 20.0
    if x < -20:
        return -20.0
    return x


def main(folder: Path) -> int:
    """Compare with a run's result."""
    samples = {row["id"]: row for row in lines(folder / "samples.jsonl") if not row["problem"]}
    result = json.loads((folder / "result.json").read_text())
    names = [path.stem.removeprefix("reference-") for path in sorted(folder.glob("reference-*.jsonl"))]
    judged, other = (names[0], "") if len(names) == 1 else order(result, names)
    first = {row["id"]: row for row in lines(folder / f"reference-{judged}.jsonl")}
    second = {row["id"]: row for row in lines(folder / f"reference-{other}.jsonl")} if other else {}
    ids = [n for n in sorted(samples) if n in first]
    pairs = {
        "decode-reference": [(samples[n]["decode"], first[n]["logprobs"]) for n in ids],
        "prefill-reference": [(samples[n]["prefill"], first[n]["logprobs"]) for n in ids if samples[n]["prefill"]],
        "decode-prefill": [(samples[n]["decode"], samples[n]["prefill"]) for n in ids if samples[n]["prefill"]],
        "rounding": [(first[n]["logprobs"], second[n]["logprobs"]) for n in ids if n in second],
        "decode-other": [(samples[n]["decode"], second[n]["logprobs"]) for n in ids if n in second],
    }
    worst = 0.0
    for name, rows in pairs.items():
        if not rows:
            continue
        said = result["figures"][name]
        for figure, value in figures(rows).items():
            worst = max(worst, off(said[figure], value, f"{name} {figure}"))
        for cap in ("2", "5"):
            for which, value in zip(("truncated", "masked"), shares(rows, float(cap))):  # noqa: B905
                worst = max(worst, off(said[which][cap], value, f"{name} {which} {cap}"))
    agreement = tops([(samples[n]["top"], first[n]["top"]) for n in ids if samples[n]["top"]])
    for figure, value in agreement.items():
        worst = max(worst, off(result["figures"]["decode-reference"][figure], value, figure))
    print(f"{len(ids)} samples; largest difference {worst:.2e}")
    return 0 if worst <= 1e-6 else 1


def order(result: dict[str, Any], names: list[str]) -> tuple[str, str]:
    """The dtype that was judged, and the other."""
    judged = next(name for name in names if result["parts"][1].endswith(name))
    return judged, next(name for name in names if name != judged)


def off(said: float | None, value: float, name: str) -> float:
    """How far a figure is off; by its size where that is large."""
    if said is None or math.isnan(value):
        return 0.0 if said is None and math.isnan(value) else math.inf
    distance = abs(said - value) / max(1.0, abs(value))
    if distance > 1e-6:
        print(f"{name}: {said} against {value}")
    return distance


def lines(path: Path) -> list[dict[str, Any]]:
    """Rows of a file."""
    return [json.loads(text) for text in path.read_text().splitlines()]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
