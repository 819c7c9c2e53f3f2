"""Stage 4 with AReaL's real controller, workers and proxy: what is sound passes; recordings replay without either."""

from __future__ import annotations

import json
import os
import shutil
import signal
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


@pytest.mark.parametrize(("style", "rows"), [("individual", 2), ("concat", 1)])
def test_an_agent_of_two_turns(stage4: Stage4, style: str, rows: int) -> None:
    stage4.config["rollout"]["agent"] = {
        "export_style": style, "chat_template_type": "concat" if style == "concat" else "hf",
    }  # fmt: skip
    found = stage4("TwoTurns", "--global-bs", "2", "--group-size", "1")
    assert failed(found) == set()
    assert f"{2 * rows} rows are prompt and answer" in found["areal.round-trip"]["detail"]


def test_an_agent_in_a_process_of_its_own_that_training_finds_by_pythonpath(stage4: Stage4) -> None:
    (stage4.folder / "elsewhere").mkdir()
    shutil.copy(AGENTS, stage4.folder / "elsewhere/my_agents.py")
    env_vars = {"PYTHONPATH": str(stage4.folder / "elsewhere")}
    stage4.config["rollout"] |= {
        "agent": {"mode": "subproc", "subproc_max_workers": 2},
        "scheduling_spec": [{"cmd": "python3 -m areal.infra.rpc.rpc_server", "env_vars": env_vars}],
    }
    found = stage4("my_agents:ByEnvironment", PYTHONPATH=env_vars["PYTHONPATH"])
    assert failed(found) == set()
    assert found["areal.importable"]["status"] == "pass"
    assert "8, all answered" in found["areal.calls"]["detail"]


def test_with_slurm_the_job_is_written_and_never_passed(stage4: Stage4) -> None:
    stage4.config["scheduler"]["type"] = "slurm"
    stage4.config["rollout"]["scheduling_spec"] = [{"cmd": "python3 -m areal.infra.rpc.rpc_server", "mem": 8}]
    found = stage4("Sound", "--global-bs", "1", "--group-size", "1")
    assert failed(found) == set()
    assert {found[id_]["status"] for id_ in ("areal.scheduler", "areal.slurm")} == {"skip"}
    assert "not submitted" in found["areal.slurm"]["detail"]
    assert "areal.infra.rpc.rpc_server" in found["areal.slurm"]["facts"]["script"]
    assert found["areal.batch"]["status"] == "pass"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_check_that_is_ended_in_mid_rollout_leaves_nothing(stage4: Stage4, number: signal.Signals) -> None:
    command = subprocess.Popen(
        [str(HARNESS), "check", "--here", *stage4.arguments("Waits")],
        cwd=stage4.folder,
        env=stage4.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        while not any('"began"' in notes.read_text() for notes in stage4.temporary.glob("drydock-*/notes.jsonl")):
            assert command.poll() is None
            time.sleep(0.2)
        family = psutil.Process(command.pid).children(recursive=True)
        ports = {port for process in family for port in listening_ports(process.net_connections())}
        assert len([one for one in family if "rpc_server" in " ".join(one.cmdline())]) > 0
        assert ports
        command.send_signal(number)
        command.wait(120)
    finally:
        command.kill()
        command.wait()
    psutil.wait_procs(family, timeout=60)
    stage4.settled()
    stage4.nothing_left()
    assert not ports & listening_ports(psutil.net_connections())
    assert command.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[number]


def listening_ports(connections: list[Any]) -> set[int]:
    """Ports on which somebody waits for connections."""
    return {one.laddr.port for one in connections if one.status == psutil.CONN_LISTEN}


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
