"""A check's report with something of everything, for tests of its page and for the picture in the docs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.checks.findings import Finding, Place, StageResult, Status
from harness.checks.report import CheckReport, build
from tests.support import load_data

SOURCE = '''\
"""Agent of a report that is made up."""


class MyAgent:
    async def run(self, data, **kwargs):
        answer = await self.ask(data, **kwargs)
        async with self.lock:
            reward = score(answer)
        return int(reward)
'''


def finding(id_: str, status: Status, detail: str, **more: Any) -> Finding:
    """A finding whose title is the second part of its id."""
    return Finding(**{"id": id_, "title": id_.split(".")[1], "status": status, "detail": detail, **more})


def write(folder: Path, *more: Finding, runs: int = 512, text: str = "Paris") -> CheckReport:
    """Leave raw material in a folder as the stages do, and give the report on it.

    Args:
        more: findings beside those of every such report.
        runs: how many runs stage 3 had.
        text: what the model said.
    """
    source = folder / "my_agent.py"
    source.write_text(SOURCE)
    load_data.write(folder, *load_data.load_data(runs))
    call = {
        "number": 1,
        "protocol": "chat",
        "path": "/v1/chat/completions",
        "status": 200,
        "failure": "",
        "seconds": 0.71,
        "asked": {"model": "smollm2-135m", "max_tokens": 16},
        "request": {"messages": [{"role": "user", "content": "What is the capital of France?"}]},
        "reply": {"text": text, "tool_calls": [], "prompt_tokens": 38, "completion_tokens": 4, "finish_reason": "stop"},
    }
    (folder / "stage2").mkdir(exist_ok=True)
    (folder / "stage2" / "calls.jsonl").write_text(json.dumps(call) + "\n")
    one = StageResult(
        stage=2,
        title="one run of my_agent.py:MyAgent",
        findings=(
            finding("run.calls", "pass", "1 call, 38 tokens in, 4 out"),
            finding(
                "run.reward",
                "fail",
                "1 is an int, not a float",
                consequence="AReaL drops the trajectory, and only a worker's log says so.",
                mend="return float(reward)",
                place=Place(file=str(source), line=9, function="run", source="return int(reward)"),
                facts={"type": "int", "value": 1},
            ),
            *more,
        ),
        figures={"calls": 1, "run_seconds": 0.84, "model_seconds": 0.71},
        seconds=0.9,
    )
    many = StageResult(
        stage=3,
        title=f"{runs} runs at once",
        findings=(
            finding(
                "load.scales",
                "fail",
                f"it serialises: of {runs} runs asked for, 3 were at work",
                place=Place(file=str(source), line=7, function="run", source="async with self.lock:"),
            ),
            finding("load.clients", "warn", "2 HTTP clients were never closed"),
        ),
        figures={"runs": runs, "wall_seconds": 47.6},
        seconds=48.0,
    )
    asked = {"agent": "my_agent.py:MyAgent", "data": "capitals.jsonl", "model": "smollm2-135m", "record": "runs/tape"}
    return build([one, many], asked=asked, seed=7)
