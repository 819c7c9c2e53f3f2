"""Stage 4 with AReaL's real controller, workers and proxy: what is sound passes; recordings replay without either."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.dap.model import Breakpoint
from harness.dap.session import Session
from tests.scenarios.areal.conftest import AGENTS, Stage4, serving
from tests.support.harness import HARNESS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
Recorded = tuple[Stage4, dict[str, dict[str, Any]]]


def failed(found: dict[str, dict[str, Any]]) -> set[str]:
    return {id_ for id_, one in found.items() if one["status"] == "fail"}


def test_a_sound_agent_passes(recorded: Recorded) -> None:
    _, found = recorded
    assert failed(found) == set()
    assert found["areal.batch"]["facts"]["got"] == 4
    assert found["areal.round-trip"]["status"] == "pass"
    assert "8 as the agent returned them; mean 1.000" in found["areal.rewards"]["detail"]
    assert "areal.left" not in found


def test_what_stage_4_recorded_gives_the_same_rewards_without_server_and_areal(recorded: Recorded) -> None:
    stage4, _ = recorded
    done = stage4.run("--stage", "3", "--replay", "tape", "--agent", f"{AGENTS}:Sound", AREAL_PYTHON="")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 of 8 runs ended as recorded, with the same reward" in done.stdout
    assert "8 calls, 1.0 a run" in done.stdout
    one = stage4.run("--stage", "2", "--replay", "tape", "--run", "3", "--agent", f"{AGENTS}:Sound", AREAL_PYTHON="")
    assert one.returncode == 0, one.stdout + one.stderr
    assert "as recorded" in one.stdout


def test_a_recording_that_was_cut_off_is_told(recorded: Recorded) -> None:
    stage4, _ = recorded
    shutil.copytree(stage4.folder / "tape", stage4.folder / "cut")
    file = stage4.folder / "cut/run-00003.jsonl"
    content = file.read_bytes()
    os.truncate(file, len(content) - len(content.splitlines()[-1]) - 20)
    done = stage4.run("--stage", "2", "--replay", "cut", "--run", "3", "--agent", f"{AGENTS}:Sound")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "half-written" in done.stdout
    all_runs = stage4.run("--stage", "3", "--replay", "cut", "--agent", f"{AGENTS}:Sound")
    assert all_runs.returncode == 1, all_runs.stdout + all_runs.stderr
    assert "1 of 8 runs break off before their end" in all_runs.stdout


def test_two_checks_at_once_have_a_proxy_each(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    with serving(tmp_path / "one") as one, serving(tmp_path / "other") as other, ThreadPoolExecutor(2) as pool:
        ports = [pool.submit(proxy_port_of, stage4) for stage4 in (one, other)]
        assert ports[0].result() != ports[1].result()


def proxy_port_of(stage4: Stage4) -> str:
    """The port of AReaL's proxy in a check that has passed."""
    found = stage4("Sound", "--global-bs", "1", "--group-size", "1")
    assert failed(found) == set()
    events = (stage4.folder / "runs/latest/stage4/events.jsonl").read_text().splitlines()
    (proxies,) = [event for event in map(json.loads, events) if event["event"] == "proxies"]
    (address,) = proxies["addresses"]
    return str(address).rpartition(":")[2]


def test_break_stops_inside_the_agent_in_areals_worker(stage4: Stage4) -> None:
    line = next(n for n, text in enumerate(AGENTS.read_text().splitlines(), 1) if "return float(await" in text)
    command = subprocess.Popen(
        [str(HARNESS), "check", "--here", *stage4.arguments("Sound")],
        cwd=stage4.folder,
        env=stage4.environment() | {"BREAK": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        with listening(command) as session:
            session.attach(breakpoints=[Breakpoint(str(AGENTS), line)], timeout=300)
            stop = session.wait_for_stop(timeout=600)
            frame = session.stack(stop.thread)[0]
            assert (Path(frame.file or "").name, frame.line) == (AGENTS.name, line)
            assert session.evaluate("data['answer']", frame.id) == "'Paris'"
            worker = session.evaluate("__import__('os').getpid()", frame.id)
            assert "rpc_server" in " ".join(psutil.Process(int(worker)).cmdline())
            session.remove_breakpoints()
            session.resume(stop.thread)
        out, _ = command.communicate(timeout=600)
    finally:
        command.kill()
        command.wait()
    found = stage4.findings(subprocess.CompletedProcess([], command.returncode, out, ""))
    assert failed(found) == set()
    assert found["areal.batch"]["facts"]["got"] == 4


def listening(command: subprocess.Popen[str]) -> Session:
    """A session with the worker, once it waits for one."""
    while command.poll() is None:
        for one in psutil.net_connections("tcp"):
            if one.status == psutil.CONN_LISTEN and tuple(one.laddr) == ("127.0.0.1", 5688):
                return Session.connect("127.0.0.1", 5688)
        time.sleep(0.2)
    raise AssertionError("the check ended before its worker waited for a debugger")
