"""Many runs at once: what serialises is named with its line, what goes wrong is counted, and the report is written."""

from __future__ import annotations

import json
import resource
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.checks.conftest import HERE, Checked, Checker
from tests.support.fake_model import KEY, Reply
from tests.support.harness import CLONE, wait_for
from tests.support.model_process import ModelProcess

WRONG = CLONE / "examples" / "wrong"
AGENTS = CLONE / "examples" / "agents"
SMALL = ("--group-size", "2", "--rollout-dp-size", "1")


def load(check: Checker, agent: str, *arguments: str, prompts: int = 8) -> Checked:
    """Runs of an agent of ``agents.py``, or of a file, at the simulated server."""
    given = ("--agent", agent) if "/" in agent else ()
    wanted = ("--stage", "3", "--server", "simulated", "--global-bs", str(prompts), *SMALL, *given)
    return check.agent(agent, *wanted, *arguments)


@pytest.mark.parametrize(
    ("agent", "cause", "source"),
    [
        ("serial_lock.py:SerialLock", "lock", "async with self.lock:"),
        ("serial_semaphore.py:SerialSemaphore", "semaphore", "async with AT_ONCE:"),
        ("serial_sync_http.py:SerialSyncHttp", "blocking-http", "completion = client.chat.completions.create("),
        ("serial_cpu.py:SerialCpu", "cpu", "digest = hashlib.sha256(digest).digest()"),
        (
            "serial_connections.py:SerialConnections",
            "connection",
            "self.http_client = DefaultAsyncHttpxClient(limits=Limits(max_connections=8))",
        ),
    ],
)
def test_an_agent_that_serialises_is_named_with_its_line(check: Checker, agent: str, cause: str, source: str) -> None:
    done = load(check, str(WRONG / agent), "--latency", "0.2", prompts=24)
    assert done.code == 1, str(done)
    found = [finding for id_, finding in done.findings.items() if id_.startswith("load.serialises")]
    (named,) = [finding for finding in found if finding["facts"]["cause"] == cause]
    assert named["place"]["source"] == source
    assert Path(named["place"]["file"]) == WRONG / agent.partition(":")[0]
    assert "it serialises at" in done.stdout
    assert done.report["stages"][-1]["figures"]["verdict"] == "serialises"


@pytest.mark.parametrize(
    "agent", ["single_turn.py:SingleTurn", "tool_use.py:ToolUse", "anthropic_agent.py:AnthropicAgent"]
)
def test_an_agent_that_is_right_is_named_for_nothing(check: Checker, agent: str) -> None:
    done = load(check, str(AGENTS / agent), "--latency", "0.2", "--data", str(CLONE / "examples/data/arithmetic.jsonl"))
    assert not [finding for finding in done.findings.values() if finding["status"] == "fail"], str(done)
    assert done.findings["load.runs"]["detail"].startswith("16 of 16 returned")
    assert done.findings["load.style"]["facts"]["style"] == "asyncio"
    assert done.findings["load.left"]["status"] == "pass"
    rows = [json.loads(line) for line in (done.folder / "stage3" / "runs.jsonl").read_text().splitlines()]
    assert sorted(row["run"] for row in rows) == list(range(16))
    assert all(row["calls"] == 1 and row["model_seconds"] > 0 for row in rows)


@pytest.mark.parametrize(
    ("agent", "id_", "words"),
    [
        ("Raises", "load.failure", "KeyError: 'no such field'"),
        ("Exits", "load.failure", "sys.exit"),
        ("ReturnsNan", "load.rewards", "are no finite number"),
        ("ReturnsAnInt", "load.rewards", "are of a type that is dropped"),
        ("MakesNoCall", "load.calls", "none was made"),
        ("ClosesTheSharedClient", "load.shared-client", "closed it"),
        ("FailsWhenMade", "agent.import", "no licence"),
        ("NotAsync", "agent.run-not-async", "is no async function"),
        ("ExitsInATask", "load.exit", "sys.exit(5)"),
        ("ExitsHard", "load.exit", "os._exit(4)"),
        ("KillsItself", "load.exit", "signal SIGKILL"),
        ("Crashes", "load.exit", "signal SIGSEGV"),
    ],
)
def test_an_agent_that_is_wrong_fails_with_the_reason(check: Checker, agent: str, id_: str, words: str) -> None:
    done = load(check, agent)
    assert done.code == 1, str(done)
    assert done.findings[id_]["status"] == "fail", str(done)
    assert words in done.findings[id_]["detail"]
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("agent", "source", "ignored"),
    [
        ("WaitsForEver", "await asyncio.Event().wait()", 0),
        ("SwallowsCancelling", "await asyncio.sleep(10_000)", 4),
        ("Blocks", "time.sleep(10_000)", None),
    ],
)
def test_runs_that_never_end_are_cut_and_shown_where_they_wait(
    check: Checker, agent: str, source: str, ignored: int | None
) -> None:
    done = load(check, agent, "--timeout", "2", prompts=2)
    assert done.code == 1, str(done)
    finding = done.findings["load.never-ends"]
    assert finding["place"]["source"].endswith(source)
    if ignored is not None:
        assert (finding["facts"]["count"], finding["facts"]["ignored"]) == (4, ignored)


@pytest.mark.parametrize("agent", ["Floods", "Forks", "SyncClientInAThread", "InASubprocess"])
def test_what_an_agent_does_besides_is_no_matter(check: Checker, agent: str) -> None:
    done = load(check, agent, prompts=2)
    assert done.findings["load.runs"]["detail"].startswith("4 of 4 returned"), str(done)
    styles = {"SyncClientInAThread": "threads", "InASubprocess": "elsewhere"}
    assert done.findings["load.style"]["facts"]["style"] == styles.get(agent, "asyncio")


def test_a_model_that_the_runs_were_not_given_is_told_though_the_simulated_server_answers(
    check: Checker, tmp_path: Path
) -> None:
    file = tmp_path / "named.py"
    file.write_text(
        "import os\nfrom openai import AsyncOpenAI\n\n\nclass Agent:\n"
        "    def __init__(self, name=None):\n        self.name = name or os.environ['OPENAI_MODEL']\n\n"
        "    async def run(self, data, **kwargs):\n        async with AsyncOpenAI(**kwargs) as client:\n"
        "            said = [{'role': 'user', 'content': 'Say hello.'}]\n"
        "            await client.chat.completions.create(model=self.name, messages=said)\n        return 1.0\n"
    )
    right = load(check, f"{file}:Agent")
    assert "load.model" not in right.findings, str(right)
    wrong = load(check, f"{file}:Agent", "--agent-args", '{"name": "gpt-4o"}')
    assert "16 calls ask for the model “gpt-4o”; runs were given “" in wrong.findings["load.model"]["detail"], wrong


def test_faults_are_the_same_for_the_same_seed_and_told_by_kind(check: Checker) -> None:
    first = load(check, "Good", "--faults", "429:0.3:10ms,500:0.2,empty:0.2", "--seed", "3", "--latency", "0")
    told = {id_: finding["facts"] for id_, finding in first.findings.items() if id_.startswith("faults.")}
    assert {"faults.429", "faults.500", "faults.empty"} == set(told), str(first)
    second = load(check, "Good", "--faults", "429:0.3:10ms,500:0.2,empty:0.2", "--seed", "3", "--latency", "0")
    again = {id_: finding["facts"] for id_, finding in second.findings.items() if id_.startswith("faults.")}
    assert {id_: facts["met"] for id_, facts in again.items()} == {id_: facts["met"] for id_, facts in told.items()}


def test_a_real_server_is_asked_directly_and_few_samples_are_told(check: Checker) -> None:
    done = check.agent("Good", "--stage", "3", "--global-bs", "4", *SMALL)
    assert done.findings["load.data"]["status"] == "warn", str(done)
    assert done.findings["load.runs"]["status"] == "pass"
    assert done.findings["load.spread"]["status"] == "warn"
    assert not any("x-drydock-run" in headers for headers in check.model.headers[-8:])
    assert KEY not in done.written()


def test_the_queue_of_a_slow_server_is_no_fault_of_the_agents(check: Checker, monkeypatch: pytest.MonkeyPatch) -> None:
    """One request at a time, as an engine with one slot; in all it takes longer than one run may take by itself."""
    one_at_a_time, answer = threading.Lock(), check.model.answer

    def slow(*request: Any) -> Reply:
        with one_at_a_time:
            time.sleep(0.2)
            return answer(*request)

    monkeypatch.setattr(check.model, "answer", slow)
    done = check.agent("Good", "--stage", "3", "--global-bs", "12", *SMALL, "--timeout", "2")
    assert not [finding for finding in done.findings.values() if finding["status"] == "fail"], str(done)
    assert done.findings["load.runs"]["status"] == "pass"
    assert done.findings["load.latency"]["facts"]["runs"]["max"] > 2
    assert "is the server's queue" in done.findings["load.latency"]["detail"], f"{done.findings}"


def test_a_server_that_is_killed_in_mid_run_is_told_and_the_rest_is_reported(check: Checker) -> None:
    model = ModelProcess()
    model.start()
    try:
        sample = {"messages": [{"role": "user", "content": "Who?"}], "answer": "x", "kill": model.pid, "after": 3}
        (check.folder / "data.jsonl").write_text(json.dumps(sample) + "\n")
        done = check.agent(
            "KillsTheServer", "--stage", "3", "--global-bs", "4", *SMALL, "--in-flight", "2", "--base-url", model.url
        )
    finally:
        model.kill()
    assert done.code == 1, str(done)
    assert "it went away" in done.findings["load.server"]["detail"], str(done)
    assert done.findings["load.runs"]["facts"]["returned"] >= 1


def test_ctrl_c_keeps_what_was_done(check: Checker) -> None:
    process = check.start(
        *("--stage", "3", "--server", "simulated", "--global-bs", "4", *SMALL, "--in-flight", "1"),
        *("--agent", f"{HERE / 'agents.py'}:SaysThatItRuns"),
    )
    said = check.folder / "running"
    wait_for("three runs", lambda: said.exists() or process.poll() is not None, 120)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    report = json.loads((check.folder / "runs" / "latest" / "result.json").read_text())
    assert report["ended_early"] == "stopped by Ctrl-C"
    assert report["stages"][0]["stage"] == 3


def test_runs_at_once_are_recorded_one_by_one(check: Checker) -> None:
    done = load(check, "Good", "--record", str(check.folder / "tape"), prompts=2)
    assert done.findings["load.runs"]["status"] == "pass", str(done)
    again = check.agent("Good", "--replay", str(check.folder / "tape"), "--run", "3")
    assert again.code == 0, str(again)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--faults", "429"), "FAULTS is set"),
        (("--server", "simulated", "--faults", "flood"), "there is no fault 'flood'"),
        (("--config", "nothing.yaml"), "no file CONFIG=nothing.yaml"),
        (("--global-bs", "9000000"), "GLOBAL_BS"),
        (("--group-size", "0"), "GROUP_SIZE=0"),
        (("--stage", "5"), "there is no stage"),
        (("--stage", "4"), "needs the training configuration"),
    ],
)
def test_wrong_usage_is_told_before_anything_runs(check: Checker, arguments: tuple[str, ...], words: str) -> None:
    done = check.agent("Good", "--stage", "3", *arguments)
    assert done.code == 2, str(done)
    assert words in done.stderr
    assert not (check.folder / "runs").exists()


def test_a_limit_of_open_files_is_named(check: Checker) -> None:
    """The SDK only says that it could not connect, and tries again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (72, hard))
    try:
        done = check(
            *("--stage", "3", "--server", "simulated", "--latency", "0.2", "--global-bs", "40", *SMALL),
            *("--agent", f"{HERE / 'agents.py'}:Good"),
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    finding = done.findings["load.calls"]
    assert finding["status"] == "warn", str(done)
    assert "Too many open files" in finding["detail"]
    assert finding["mend"].startswith("ulimit -n")
