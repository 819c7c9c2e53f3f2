"""Record with a model, replay without one: same calls, same rewards, whatever library makes the calls."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.dap.model import Breakpoint
from harness.dap.session import Session
from harness.errors import DebuggerGone
from tests.scenarios.checks.conftest import Checked, Checker
from tests.scenarios.checks.conftest import check as check
from tests.support.harness import free_port

HERE = Path(__file__).parent
AGENTS = HERE / "agents.py"


def record(check: Checker, agent: str, *arguments: str) -> Checked:
    return run(check, agent, "--record", str(check.folder / "tape"), *arguments)


def replay(check: Checker, agent: str, *arguments: str) -> Checked:
    """Replay with a model that answers differently, so that whoever asks it is found out."""
    check.model.text = "nobody may hear this"
    check.model.requests.clear()
    done = run(check, agent, "--replay", str(check.folder / "tape"), *arguments)
    assert check.model.requests == []
    return done


def run(check: Checker, agent: str, *arguments: str) -> Checked:
    return check.command_here("--stage", "2", "--agent", f"{AGENTS}:{agent}", *arguments)


def reward(done: Checked) -> Any:
    return done.findings["run.reward"]["facts"]


INSIDE = ["AsyncSdk", "AsyncSdkOfItsOwn", "Streams", "SyncSdk", "BareHttpx", "AnthropicSdk", "Responses", "Many"]
OUTSIDE = ["Aiohttp", "Urllib", "InASubprocess", "InAFork", "Mixed"]


@pytest.mark.parametrize("agent", [*INSIDE, *OUTSIDE])
def test_a_run_is_replayed_with_the_same_reward(check: Checker, agent: str) -> None:
    recorded = record(check, agent)
    assert recorded.code == 0, str(recorded)
    before = reward(recorded)
    for _ in range(2 if agent in ("Many", "Mixed") else 1):
        done = replay(check, agent)
        assert done.code == 0, str(done)
        assert reward(done) == before
        assert done.findings["replay.reward"]["status"] == "pass", str(done)
        assert done.findings["replay.calls"]["status"] == "pass", str(done)
        assert len(json.loads(json.dumps(done.report["stages"]))) == 1


def test_a_call_that_was_not_recorded_fails_with_the_difference(
    check: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert record(check, "Asks").code == 0
    monkeypatch.setenv("ASK", "something else")
    done = replay(check, "Asks")
    assert done.code == 1
    finding = done.findings["replay.calls"]
    assert finding["status"] == "fail"
    assert "nearest is call 1 of 1" in finding["detail"]
    assert "stop: recorded “recorded”, asked “something else”" in done.stdout, str(done)
    assert "BadRequestError" in done.findings["run.raises"]["detail"]


def test_a_changed_reward_is_told(check: Checker, monkeypatch: pytest.MonkeyPatch) -> None:
    before = reward(record(check, "Asks"))["value"]
    monkeypatch.setenv("FACTOR", "2")
    done = replay(check, "Asks")
    assert done.code == 0, str(done)
    finding = done.findings["replay.reward"]
    assert finding["status"] == "warn"
    assert f"recorded was {before}" in finding["detail"], str(done)


def test_one_of_many_runs_is_stepped_through(check: Checker) -> None:
    before = reward(record(check, "Stepped"))
    tape = check.folder / "tape"
    # A recording of many runs, as stage 3 leaves it: this one is number 137 of them.
    text = (tape / "run-00000.jsonl").read_text()
    (tape / "run-00137.jsonl").write_text(text.replace('"run": 0', '"run": 137'))
    (tape / "run-00000.jsonl").write_text("")
    (check.folder / "data.jsonl").unlink()  # the sample comes from the recording
    for _ in range(2):
        done = replay(check, "Stepped", "--run", "137")
        assert done.code == 0, str(done)
        assert reward(done) == before
        assert done.report["stages"][0]["figures"]["run"] == 137
        lines = (done.folder / "stage2" / "stdout.txt").read_text()
        assert lines.startswith("stepped over")
        assert int(lines.split()[2]) >= 3
    done = replay(check, "Stepped", "--run", "138")
    assert done.code == 2
    assert "has no run 138" in done.stderr


def test_a_debugger_stops_in_the_agent_of_a_replayed_run(check: Checker) -> None:
    assert record(check, "AsyncSdk").code == 0
    port = free_port()
    listen = [sys.executable, "-m", "debugpy", "--listen", f"127.0.0.1:{port}", "--wait-for-client"]
    command = check.command("--stage", "2", "--agent", f"{AGENTS}:AsyncSdk", "--replay", "tape", "--run", "0")
    # Shorter than the debugger stays: what a person does at a breakpoint is not the agent's time.
    started = subprocess.Popen(
        [*listen, *command, "--timeout", "1"], cwd=check.folder, env=check.environment(), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        with connected(port) as outer:
            outer.attach(configuration={"subProcess": True})
            told = outer.wait_for_event("debugpyAttach", timeout=60)
            with Session.connect("127.0.0.1", told["connect"]["port"]) as inner:
                # Its second call: what the first was answered can be looked at.
                line = AGENTS.read_text().splitlines().index("class AsyncSdk:") + 5
                inner.attach(breakpoints=[Breakpoint(str(AGENTS), line)], configuration=told, timeout=60)
                stop = inner.wait_for_stop(timeout=60)
                frame = inner.stack(stop.thread)[0]
                assert (frame.file, frame.line, frame.name) == (str(AGENTS), line, "run")
                seen = inner.evaluate("answer.choices[0].message.content", frame.id)
                assert "Paris" in str(seen)
                time.sleep(1.5)
                inner.remove_breakpoints()
                inner.resume(stop.thread)
        said, _ = started.communicate(timeout=60)
    finally:
        started.kill()
        started.wait()
    assert started.returncode == 0, said
    assert "as recorded" in said


def connected(port: int) -> Session:
    """A session, as soon as somebody listens."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return Session.connect("127.0.0.1", port)
        except DebuggerGone:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def test_a_recording_whose_maker_was_killed_is_replayed_as_far_as_it_goes(check: Checker) -> None:
    tape = check.folder / "tape"
    running = check.start("--stage", "2", "--agent", f"{AGENTS}:AsksForEver", "--record", str(tape))
    children: list[psutil.Process] = []
    try:
        while (tape / "run-00000.jsonl").stat().st_size < 20_000 if (tape / "run-00000.jsonl").is_file() else True:
            assert running.poll() is None, running.communicate()
            time.sleep(0.05)
        children = psutil.Process(running.pid).children(recursive=True)
    finally:
        running.kill()
        running.wait()
        for child in children:
            child.kill()
    with (tape / "run-00000.jsonl").open("ab") as file:
        file.write(b'{"call": {"run": 0, "numb')
    done = replay(check, "AsksForEver")
    assert done.code == 1
    notes = done.findings["replay.recording"]["detail"]
    assert "the last line of run-00000.jsonl is half-written and was left out" in notes
    assert "breaks off before the run's end" in notes
    assert done.findings["replay.calls"]["facts"]["replayed"] > 5


def test_keys_are_not_in_a_recording(check: Checker) -> None:
    record(check, "AnthropicSdk")
    text = "".join(path.read_text() for path in (check.folder / "tape").iterdir())
    assert check.model.key not in text
    assert "drydock-run-" not in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--replay", "nowhere"), "is no recording"),
        (("--record", "a", "--replay", "b"), "RECORD and REPLAY are both set"),
        (("--run", "3"), "RUN=3 names a run of a recording, and none is named"),
        (("--run", "-1", "--replay", "x"), "RUN=-1"),
        (("--record", "."), "isn't empty"),
    ],
)
def test_what_makes_no_sense_is_told_before_anything_runs(
    check: Checker, arguments: tuple[str, ...], words: str
) -> None:
    done = run(check, "Asks", *arguments)
    assert done.code == 2, str(done)
    assert words in done.stderr
    assert not any("chat" in path for path, _ in check.model.requests)


def test_with_a_recording_no_server_needs_to_be_named(check: Checker) -> None:
    record(check, "Asks")
    done = check("--agent", f"{AGENTS}:Asks", "--replay", str(check.folder / "tape"), OPENAI_BASE_URL="")
    assert done.code == 0, str(done)
    assert "Stage 1" not in done.stdout


def test_many_runs_are_replayed_and_one_of_them_alone(check: Checker) -> None:
    """Recorded by stage 3, from a server that answers in its own way; replayed by stage 3 and by stage 2."""
    tape, agent = str(check.folder / "tape"), f"{AGENTS}:Streams"
    size = {"GLOBAL_BS": "4", "GROUP_SIZE": "2", "ROLLOUT_DP_SIZE": "1", "SERVER": "simulated"}
    recorded = check("--stage", "3", "--agent", agent, "--record", tape, "--seed", "1", **size)
    assert recorded.code == 0, str(recorded)
    again = check("--stage", "3", "--agent", agent, "--replay", tape, OPENAI_BASE_URL="")
    assert again.code == 0, str(again)
    assert "8 of 8 runs ended as recorded, with the same reward" in again.findings["replay.reward"]["detail"]
    assert again.findings["replay.calls"]["status"] == "pass"
    one = check("--agent", agent, "--replay", tape, "--run", "5", OPENAI_BASE_URL="")
    assert one.code == 0, str(one)
    assert one.findings["replay.reward"]["status"] == "pass"
    assert one.report["stages"][0]["figures"]["run"] == 5
    (check.folder / "tape" / "run-00003.jsonl").unlink()
    missing = check("--stage", "3", "--agent", agent, "--replay", tape)
    assert missing.code == 2
    assert "lacks some of its runs" in missing.stderr
