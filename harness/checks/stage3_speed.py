"""Judgements on how fast many runs go at once, and what holds them up; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.checks import server_queue
from harness.checks.findings import Finding
from harness.checks.scaling import Cause, Verdict
from harness.checks.stage3_data import CallRow, Figures, Stall
from harness.checks.stage3_ends import Case, places
from harness.checks.stage3_rows import Rows, percentiles

# A part of the time from which stalls are worth a warning.
STALLED = 0.05

_MENDS = {
    "lock": "hold the lock only around what it guards, and never across a call to the model",
    "semaphore": "take it away, or make it as large as the number of runs: the server has a queue of its own",
    "condition": "let runs not wait for each other",
    "queue": "let each run do its own work, or start as many workers as there are runs",
    "thread": "use the SDK's asynchronous client, or a pool with as many threads as there are runs",
    "connection": "use the http_client that run() gets, or limits=Limits(max_connections=None)",
    "blocking-http": "use the asynchronous client (AsyncOpenAI), or asyncio.to_thread for what has none",
    "blocking-call": "use the asynchronous form of it, or asyncio.to_thread",
    "cpu": "compute in a process pool: await loop.run_in_executor(ProcessPoolExecutor(), ...)",
    "new-clients": "make the client once, or give it the http_client that run() gets",
}


def judge(case: Case, verdict: Verdict, figures: Figures) -> list[Finding]:
    """The findings on speed, the verdict first."""
    if not case.rows.runs or case.load.trace.event("began") is None:
        return []
    return [
        *_scales(case.rows, verdict),
        *_stalls(case.rows),
        _in_flight(case.rows, verdict),
        *_latency(case.rows, figures),
        _style(figures),
    ]


def _scales(rows: Rows, verdict: Verdict) -> Iterable[Finding]:
    ratio = "" if verdict.ratio is None else f", {verdict.ratio:.2f} of a bare client's rate"
    facts = {
        "verdict": verdict.kind,
        "ratio": None if verdict.ratio is None else round(verdict.ratio, 3),
        "shares": {kind: round(share, 3) for kind, share in verdict.shares.items()},
    }
    if verdict.kind == "scales":
        yield Finding(
            id="load.scales", title="does it scale", status="pass", detail=f"yes{ratio}: {_spent(verdict)}", facts=facts
        )
        return
    if verdict.kind == "serialises":
        for number, cause in enumerate(verdict.causes[:3], start=1):
            yield _cause(cause, rows, number, ratio, facts)
        return
    if verdict.kind == "slower":
        says = "no single line serialises, but it is slower than the same calls from a bare client"
        yield Finding(
            id="load.scales",
            title="does it scale",
            status="warn",
            detail=f"{says}{ratio}: {_spent(verdict)}",
            consequence="Training waits for the agent instead of the server.",
            facts=facts,
        )
        return
    starved = rows.data.loop.starved
    others = f"other programs had the processor for {starved:.1f} s of {rows.data.wall:.1f} s"
    yield Finding(
        id="load.scales",
        title="does it scale",
        status="warn",
        detail=f"undecided{ratio}: {verdict.reason or others}",
        mend="make check STAGE=3 SERVER=simulated   # takes the server out of the question"
        if verdict.reason
        else "check again when the machine is idle",
        facts=facts,
    )


def _cause(cause: Cause, rows: Rows, number: int, ratio: str, facts: Mapping[str, object]) -> Finding:
    stack = places(cause.frames)
    place = stack[-1] if stack else None
    at = f" at {place.file}:{place.line}" if place else ""
    detail = f"no, it serialises{at}: {cause.says}, {cause.share:.0%} of the time"
    if cause.detail:
        detail += f" ({cause.detail})"
    return Finding(
        id="load.serialises" if number == 1 else f"load.serialises.{number}",
        title="does it scale",
        status="fail",
        detail=detail + (ratio if number == 1 else ""),
        consequence=f"Of {rows.data.asked.in_flight} runs in flight most stand still, and the GPUs with them.",
        mend=_MENDS[cause.kind],
        place=place,
        stack=stack,
        facts={**facts, "cause": cause.kind, "share": round(cause.share, 3)},
    )


def _spent(verdict: Verdict) -> str:
    names = {
        "model": "at the server",
        "connection": "for a connection",
        "loop": "for the event loop",
        "thread": "for threads",
        "sleep": "asleep",
        "lock": "for locks",
        "semaphore": "for semaphores",
        "other": "for other things",
    }
    largest = sorted(verdict.shares.items(), key=lambda item: -item[1])[:3]
    said = ", ".join(f"{share:.0%} {names.get(kind, kind)}" for kind, share in largest if share >= 0.01)
    return f"runs waited {said}" if said else "too short to see what runs waited for"


def _stalls(rows: Rows) -> Iterable[Finding]:
    data = rows.data
    title = "event loop"
    if not data.stall_count:
        yield Finding(id="load.stalls", title=title, status="pass", detail="no callback took longer than 0.1 s")
        return
    longest = max(data.stalls, key=lambda stall: stall.seconds)
    share = data.stall_seconds / data.wall if data.wall else 0.0
    detail = f"{data.stall_count} stalls, {data.stall_seconds:.2f} s together, the longest {longest.seconds:.2f} s"
    stack = places(longest.frames)
    yield Finding(
        id="load.stalls",
        title=title,
        status="warn" if share > STALLED else "pass",
        detail=f"{detail}: {_where(longest)}",
        consequence="While a callback runs every other run stands still." if share > STALLED else "",
        place=stack[-1] if stack else None,
        stack=stack if share > STALLED else (),
        facts={"count": data.stall_count, "seconds": round(data.stall_seconds, 3), "share": round(share, 3)},
    )


def _where(stall: Stall) -> str:
    if not stall.frames:
        return "nobody saw where"
    inner = stall.frames[-1]
    how = "blocked" if stall.waiting else "computing"
    return f"{how} in {inner.function} ({'/'.join(inner.file.split('/')[-2:])}:{inner.line})"


def _in_flight(rows: Rows, verdict: Verdict) -> Finding:
    asked = rows.data.asked.in_flight
    # Runs that make several calls at a time have more of those under way than there are runs.
    many = " calls" if verdict.peak > asked else ""
    return Finding(
        id="load.in-flight",
        title="runs in flight",
        status="pass",
        detail=f"{verdict.peak}{many} at the most and {verdict.mean:.0f} on average were really under way, of {asked} "
        f"{'runs at once' if many else 'asked'}",
        facts={"asked": asked, "peak": verdict.peak, "mean": round(verdict.mean, 1)},
    )


def _latency(rows: Rows, figures: Figures) -> Iterable[Finding]:
    if not figures.latency:
        return
    detail = f"a run takes {_three(figures.latency)}"
    if figures.call_latency:
        detail += f"; a call {_three(figures.call_latency)}"
    bare = server_queue.of(rows.bare)
    alone, which = rows.data.alone, "a call alone takes"
    if alone is None:
        # The first run may have been cut, while it imported things for example. Nobody waits less than who is first.
        alone, which = (
            min((call.ended - call.started for call in rows.bare if call.ok), default=None),
            "the fastest took",
        )
    if bare.latency and alone is not None and figures.call_latency:
        queue, at_least = server_queue.in_queue(figures.call_latency["p50"], bare, alone)
        least = "at least " if bare.is_bound("p50") else ""
        detail += (
            f"; of a call's p50 {'at least ' if at_least else ''}{queue:.2f} s is the server's queue, for a bare "
            f"client's p50 is {least}{bare.latency['p50']:.2f} s and {which} {alone:.2f} s"
        )
    yield Finding(
        id="load.latency",
        title="latency",
        status="pass",
        detail=detail,
        facts={"runs": figures.latency, "calls": figures.call_latency, "bare": bare.latency, "alone": alone},
    )


def _three(values: dict[str, float]) -> str:
    return " / ".join(f"{values[name]:.2f}" for name in ("p50", "p95", "p99")) + " s (p50/p95/p99)"


def _style(figures: Figures) -> Finding:
    says = {
        "asyncio": "its calls are asynchronous",
        "threads": "its calls are blocking ones, made in threads",
        "blocking": "its calls are blocking ones, made in the event loop",
        "mixed": "some of its calls are asynchronous, some blocking",
        "elsewhere": "its calls come from other processes, or from a library that is no httpx",
        "none": "it makes no calls",
    }
    return Finding(
        id="load.style",
        title="kind of agent",
        status="pass",
        detail=f"{figures.style}: {says[figures.style]}",
        facts={"style": figures.style},
    )


def figures_of(case: Case, verdict: Verdict) -> Figures:
    """The summary of what was measured."""
    rows, bare = case.rows, case.load.bare
    wall, calls, runs = rows.data.wall, rows.calls, rows.runs
    ended = [run for run in runs if run.ended is not None]
    tokens = [call.completion_tokens for call in calls if call.completion_tokens is not None]
    at_server = [call.ended - call.sent for call in calls if call.sent is not None and call.ok]
    return Figures(
        runs=rows.data.asked.runs,
        ended=len(ended),
        failed=sum(run.outcome != "returned" for run in runs),
        wall_seconds=round(wall, 3),
        runs_per_second=round(len(ended) / wall, 2) if wall else 0.0,
        calls=len(calls),
        calls_per_second=round(len(calls) / wall, 2) if wall else 0.0,
        tokens_per_second=round(sum(tokens) / wall, 1) if tokens and wall else None,
        latency=percentiles((run.ended or 0.0) - run.started for run in ended if run.outcome == "returned"),
        call_latency=percentiles(at_server),
        in_flight_asked=rows.data.asked.in_flight,
        in_flight_peak=verdict.peak,
        in_flight_mean=round(verdict.mean, 1),
        bare={}
        if bare is None
        else {
            "calls": bare.done,
            "seconds": round(bare.seconds, 3),
            "calls_per_second": round(bare.done / bare.seconds, 2) if bare.seconds else 0.0,
            "latency": server_queue.of(rows.bare).latency,
            "broken_off": server_queue.of(rows.bare).broken_off,
            "problem": bare.problem,
        },
        verdict=verdict.kind,
        style=style_of(calls, outside=case.load.outside),
    )


def style_of(calls: Iterable[CallRow], *, outside: bool) -> str:
    """What kind of agent it is, by what its calls do."""
    kinds = {("threads" if call.thread else "blocking") if call.sync else "asyncio" for call in calls}
    if outside:
        return "elsewhere"
    if not kinds:
        return "none"
    return kinds.pop() if len(kinds) == 1 else "mixed"
