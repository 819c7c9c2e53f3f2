"""Raw data of a stage 3 as a run of many agents leaves it: for tests of reports, and for the picture in the docs.

The numbers are made up, equal each time: 512 runs of an agent that holds a lock while it asks the model.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

from harness.checks.stage3_data import (
    Asked,
    CallRow,
    Course,
    LoadData,
    Resources,
    RunRow,
    Stack,
    StackFrame,
    Stall,
    Wait,
)

AGENT = "agents/my_agent.py"


def frames(*places: tuple[str, str, int], source: str = "") -> tuple[StackFrame, ...]:
    """Frames of a stack, outermost first: (file, function, line)."""
    return tuple(
        StackFrame(file=file, line=line, function=function, source=source, own=file.startswith("agents/"))
        for file, function, line in places
    )


RUN = ("/usr/lib/python3.11/asyncio/events.py", "_run", 80)
SCORE = frames(RUN, (AGENT, "run", 31), (AGENT, "score", 48), (AGENT, "edit_distance", 57), source="row[j] = min(…)")
PARSE = frames(RUN, (AGENT, "run", 29), ("/usr/lib/python3.11/json/__init__.py", "loads", 346))
SLEEP = frames(RUN, (AGENT, "run", 33), source="time.sleep(0.2)")
LOCK = frames((AGENT, "run", 27), source="async with self.lock:")
CALL = frames((AGENT, "run", 28), ("/opt/venv/lib/openai/_base_client.py", "request", 1594))


def load_data(runs: int = 512) -> tuple[LoadData, list[RunRow], list[CallRow]]:
    """A stage 3 with failures, stalls, waits, and groups of equal rewards."""
    chance = random.Random(7)
    rows, calls = [], []
    clock = 0.0
    for run in range(runs):
        clock += chance.expovariate(12)
        took = 0.3 + chance.lognormvariate(0.4, 0.5)
        failed = run % 37 == 5
        reward = None if failed else float(run // 8 % 3 == 0 or chance.random() < 0.4)
        rows.append(
            RunRow(
                run=run,
                group=run // 8,
                line=run // 8 + 1,
                started=0.0,
                ended=clock + took,
                outcome="raised" if failed else "returned",
                error="KeyError" if failed else "",
                message="'answer'" if failed else "",
                file=AGENT if failed else "",
                at=31 if failed else 0,
                reward=reward,
                reward_type="" if failed else "float",
                reward_shown="" if failed else str(reward),
                calls=1,
                model_seconds=took,
            )
        )
        calls.append(
            CallRow(
                run=run,
                number=1,
                path="/v1/chat/completions",
                started=clock,
                sent=clock + 0.001,
                ended=clock + took,
                status=200,
                finish_reason="stop",
                prompt_tokens=40,
                completion_tokens=16,
            )
        )
    wall = max(row.ended or 0.0 for row in rows)
    course = tuple(_course(rows, calls, second / 2) for second in range(int(wall * 2) + 2))
    data = LoadData(
        asked=Asked(runs=runs, in_flight=runs, groups=runs // 8, group_size=8, server="simulated", latency=1.0),
        wall=wall,
        stalls=(
            Stall(started=3.1, seconds=1.9, frames=SCORE),
            Stall(started=9.4, seconds=0.8, frames=PARSE),
            Stall(started=12.0, seconds=0.4, frames=SLEEP, waiting=True),
        ),
        stall_count=3,
        stall_seconds=3.1,
        waits=(
            Wait(kind="lock", frames=LOCK, run_seconds=9000.0, detail="asyncio.Lock", most=511),
            Wait(kind="model", frames=CALL, run_seconds=700.0, most=24),
        ),
        profile=(Stack(frames=SCORE, seconds=6.0), Stack(frames=PARSE, seconds=2.5), Stack(frames=CALL, seconds=4.0)),
        course=course,
        before=Resources(rss=90_000_000),
        after=Resources(rss=240_000_000),
    )
    return data, rows, calls


def _course(rows: list[RunRow], calls: list[CallRow], t: float) -> Course:
    active = sum((row.ended or 0) > t for row in rows)
    at_model = sum(call.started <= t < call.ended for call in calls)
    rss = 90_000_000 + 300_000 * (len(rows) - active)
    return Course(t=t, active=active, at_model=at_model, queued=active - at_model, done=len(rows) - active, rss=rss)


def write(folder: Path, data: LoadData, rows: list[RunRow], calls: list[CallRow]) -> None:
    """Leave it in a run's folder as stage 3 does."""
    place = folder / "stage3"
    place.mkdir(parents=True, exist_ok=True)
    (place / "load.json").write_text(data.model_dump_json())
    for name, values in (("runs", rows), ("calls", calls)):
        (place / f"{name}.jsonl").write_text("".join(json.dumps(row.model_dump()) + "\n" for row in values))
