"""One run of an agent, whatever the agent does: it ends, it is told what and where, and nothing is left behind."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import psutil
import pytest

from tests.scenarios.checks.conftest import HERE, Checked, Checker
from tests.support.fake_model import KEY, MODEL
from tests.support.harness import wait_for

AGENTS = (HERE / "agents.py").read_text().splitlines()


def line_of(text: str) -> int:
    """The line of ``agents.py`` that holds a text, which must be there once."""
    (number,) = [number for number, line in enumerate(AGENTS, start=1) if text in line]
    return number


@pytest.mark.parametrize(
    ("agent", "calls", "in_process"),
    [
        ("Good", 1, True),
        ("OnePerCall", 2, True),
        ("Streams", 1, True),
        ("OwnClientFromTheEnvironment", 1, True),
        ("SyncClientInAThread", 1, True),
        ("InASubprocess", 1, False),
        ("ReadsItsInput", 1, True),
    ],
)
def test_an_agent_that_is_right_passes_and_each_of_its_calls_is_seen(
    check: Checker, agent: str, calls: int, in_process: bool
) -> None:
    done = check.agent(agent)
    assert done.code == 0, str(done)
    wrong = {id_ for id_, finding in done.findings.items() if finding["status"] != "pass"}
    # It works; that a client of its own costs 20 ms a run is worth a word.
    assert wrong == ({"lint.new-client-per-run"} if agent == "OwnClientFromTheEnvironment" else set())
    (stage,) = done.report["stages"]
    assert stage["figures"]["calls"] == calls
    assert stage["figures"]["completion_tokens"] == 4 * calls
    assert stage["figures"]["seen_in_process"] is in_process
    assert {body["model"] for path, body in check.model.requests if path.endswith("completions")} == {MODEL}
    kept = [json.loads(line) for line in (done.folder / "stage2" / "calls.jsonl").read_text().splitlines()]
    assert len(kept) == calls
    assert all(call["request"]["model"] == MODEL and call["response"] for call in kept)


WRONG: list[tuple[str, str, str, str]] = [
    ("NotAsync", "agent.run-not-async", "is no async function", "def run(self, data: dict[str, Any], **kwargs"),
    ("NoRun", "agent.no-run", "has no method run", ""),
    ("TakesNoArguments", "agent.run-signature", "can't be called as run(data, base_url=", ""),
    ("NeedsArguments", "agent.not-constructible", "reward", ""),
    ("FailsWhenMade", "agent.import", "RuntimeError: no licence", 'raise RuntimeError("no licence")'),
    ("Raises", "run.raises", "KeyError: 'no such field'", 'return float(data["no such field"])'),
    ("RaisesInTheSdk", "run.raises", "openai.NotFoundError", ""),
    ("ReturnsAnInt", "run.reward", "1 is an int, not a float", "            return 1"),
    ("ReturnsNothing", "run.reward", "run returned nothing (None)", ""),
    ("ReturnsNan", "run.reward", "nan (float)", 'return float("nan")'),
    ("ReturnsText", "run.reward", "'a good answer' is a str, not a reward", 'return "a good answer"'),
    ("MakesNoCall", "run.calls", "none was made", ""),
    ("ClosesTheSharedClient", "run.shared-client", "the run closed it", ""),
    ("AppendsV1", "run.calls", "HTTP 404 for /v1/v1/chat/completions", ""),
    ("Exits", "run.exit", "sys.exit(3)", "sys.exit(3)"),
    ("ExitsInATask", "run.exit", "sys.exit(5)", "sys.exit(5)"),
    ("ExitsHard", "run.exit", "os._exit(4)", "os._exit(4)"),
    ("Crashes", "run.exit", "the process ended with signal SIGSEGV", "ctypes.string_at(0)"),
    ("KillsItself", "run.exit", "the process ended with signal SIGKILL", ""),
]


@pytest.mark.parametrize(("agent", "id_", "words", "source"), WRONG, ids=[wrong[0] for wrong in WRONG])
def test_an_agent_that_is_wrong_fails_with_the_reason_and_the_line(
    check: Checker, agent: str, id_: str, words: str, source: str
) -> None:
    done = check.agent(agent)
    assert done.code == 1, str(done)
    finding = done.findings[id_]
    assert finding["status"] == "fail"
    assert words in finding["detail"]
    assert finding["consequence"]
    assert words in done.stdout
    if source.strip():
        expected = [number for number, line in enumerate(AGENTS, start=1) if source in line]
        assert finding["place"]["line"] in expected
        assert Path(finding["place"]["file"]) == HERE / "agents.py"
    assert "Traceback" not in done.stdout + done.stderr


def test_what_no_source_shows_is_seen_in_the_run(check: Checker) -> None:
    done = check.agent("HidesWhatItDoes")
    blocks, state = done.findings["lint.blocking-call"], done.findings["lint.state-on-self"]
    assert (done.code, blocks["status"], state["status"]) == (1, "fail", "warn"), str(done)
    assert blocks["place"]["source"] == 'getattr(time, "sle" + "ep")(0.4)'
    assert "self.turn from 0 to 3" in state["detail"]


NEVER: list[tuple[str, str, str]] = [
    ("WaitsForEver", "waits", "await asyncio.Event().wait()"),
    ("Gathers", "waits", "await asyncio.Queue[int]().get()"),
    ("Blocks", "blocks", "time.sleep(10_000)"),
    ("HoldsTheInterpreter", "blocks", 're.match(r"(a+)+$"'),
    ("SwallowsCancelling", "waits", "await asyncio.sleep(10_000)"),
]


@pytest.mark.parametrize(("agent", "how", "source"), NEVER, ids=[never[0] for never in NEVER])
def test_an_agent_that_never_returns_is_cut_and_shown_where_it_waits(
    check: Checker, agent: str, how: str, source: str
) -> None:
    done = check.agent(agent, "--timeout", "2")
    assert done.code == 1, str(done)
    finding = done.findings["run.never-ends"]
    assert f"not done after 2 s; {how} at" in finding["detail"]
    assert source in finding["place"]["source"]
    assert finding["facts"]["ended_by"] == ("cancel" if agent in ("WaitsForEver", "Gathers") else "kill")
    assert (done.folder / "stage2" / "stacks.json").is_file()


def test_an_agent_that_waits_for_the_model_is_told_so(check: Checker) -> None:
    check.model.hold("/v1/chat/completions")
    done = check.agent("WaitsForTheModel", "--timeout", "3")
    finding = done.findings["run.never-ends"]
    assert "1 call to the model under way" in finding["detail"], str(done)
    assert 'await kwargs["http_client"].post' in finding["place"]["source"]
    (call,) = [json.loads(line) for line in (done.folder / "stage2" / "calls.jsonl").read_text().splitlines()]
    assert call["abandoned"]


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def left_process(done: Checked) -> int:
    text = (done.folder / "stage2" / "stdout.txt").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("left-process")).split()[1])


@pytest.mark.parametrize("agent", ["LeavesThingsBehind", "Forks"])
def test_what_an_agent_leaves_running_is_named_and_ended(check: Checker, agent: str) -> None:
    done = check.agent(agent)
    assert done.code == 0, str(done)
    finding = done.findings["run.left-behind"]
    assert finding["status"] == "warn"
    assert "1 process" in finding["detail"]
    if agent == "LeavesThingsBehind":
        assert "1 task (left-task); 1 thread (left-thread)" in finding["detail"]
    assert not is_running(left_process(done))


def test_a_flood_of_output_is_counted_and_kept_in_part(check: Checker) -> None:
    done = check.agent("Floods")
    assert done.code == 0, str(done)
    assert "10.0 MB printed in one run" in done.findings["run.output"]["detail"]
    kept = done.folder / "stage2" / "stdout.txt"
    assert kept.stat().st_size < 300_000
    assert "bytes not kept" in kept.read_text()


def test_no_secret_reaches_the_agent_the_report_or_the_screen(check: Checker) -> None:
    agent = ("--stage", "2", "--agent", f"{HERE / 'agents.py'}:PrintsSecrets")
    done = check(*agent, "--json", HF_TOKEN="hf_abcdefghijklmnopqrstuvwx")
    assert done.code == 0, str(done)
    everything = done.written() + done.stdout + done.stderr
    assert "environment:" in everything
    for secret in (KEY, "hf_abcdefghijklmnopqrstuvwx", "sk-another-providers-key-0123456789"):
        assert secret not in everything
    # Not because it was blacked out: the agent's environment holds a key for the run alone.
    assert f"'OPENAI_API_KEY': '{KEY}'" not in everything
    assert "drydock-run-0" in everything or "[redacted]" in everything


def test_arguments_reach_the_agents_init(check: Checker) -> None:
    done = check.agent("NeedsArguments", "--agent-args", '{"reward": 0.25}')
    assert done.code == 0, str(done)
    assert done.findings["run.reward"]["facts"]["value"] == 0.25


def test_a_seed_gives_the_same_sample_again(check: Checker) -> None:
    lines = [json.dumps({"messages": [], "number": number}) for number in range(500)]
    (check.folder / "data.jsonl").write_text("\n".join(lines))
    first = check.agent("Good").report
    again = check.agent("Good", "--seed", str(first["seed"])).report
    assert first["stages"][0]["figures"]["line"] == again["stages"][0]["figures"]["line"]
    assert again["stages"][0]["figures"]["sample"]["number"] == again["stages"][0]["figures"]["line"] - 1


def test_a_malformed_line_is_named_and_the_rest_is_used(check: Checker) -> None:
    with (check.folder / "data.jsonl").open("a") as data:
        data.write('{"messages": [\n')
    done = check.agent("Good")
    assert done.code == 1
    assert "1 of 2 lines are no sample: line 2: no JSON" in done.findings["data.lines"]["detail"]
    assert done.findings["run.reward"]["status"] == "pass"


@pytest.mark.parametrize("content", ["", "\n\n", "no\n"])
def test_data_without_any_sample_fails_without_a_run(check: Checker, content: str) -> None:
    (check.folder / "data.jsonl").write_text(content)
    done = check.agent("Good")
    assert done.code == 1, str(done)
    assert list(done.findings) == ["data.lines"]
    assert "there is no sample to run" in done.stdout


@pytest.mark.parametrize(
    ("agent", "code", "words"),
    [
        ("nothing.py:A", 2, "there is no file nothing.py"),
        ("nothing:A", 2, "there is no module 'nothing'"),
        ("broken.py:A", 1, "broken.py, line 2"),
        ("fine.py:B", 2, "has no class B"),
        ("fine.py", 2, "names a file but no class"),
        ("missing.py:A", 1, "No module named 'not_installed'"),
    ],
)
def test_an_agent_that_is_not_there_is_told(check: Checker, agent: str, code: int, words: str) -> None:
    body = "class A:\n    async def run(self, data, **k): return 1.0\n"
    (check.folder / "fine.py").write_text(body)
    (check.folder / "broken.py").write_text("class A:\n    async def run(self\n")
    (check.folder / "missing.py").write_text(f"import not_installed\n{body}")
    done = check.command_here("--stage", "2", "--agent", agent)
    assert done.code == code, str(done)
    assert words in done.stdout + done.stderr


def test_an_agent_beside_modules_with_common_names_gets_its_own(check: Checker) -> None:
    (check.folder / "harness.py").write_text("MINE = 1.0\n")
    (check.folder / "calls.py").write_text("MINE = 1.0\n")
    (check.folder / "mine.py").write_text(
        "import calls, harness, os\n"
        "from openai import AsyncOpenAI\n"
        "class A:\n"
        "    async def run(self, data, **k):\n"
        "        client = AsyncOpenAI(http_client=k['http_client'])\n"
        "        await client.chat.completions.create(model=os.environ['OPENAI_MODEL'], messages=data['messages'])\n"
        "        return calls.MINE * harness.MINE\n"
    )
    done = check.command_here("--stage", "2", "--agent", "mine.py:A")
    assert done.code == 0, str(done)


def test_ctrl_c_ends_the_agent_and_leaves_a_report(check: Checker) -> None:
    check.model.hold("/v1/chat/completions")
    running = check.start("--stage", "2", "--agent", f"{HERE / 'agents.py'}:WaitsForTheModel")
    assert check.model.arrived.wait(120)
    children = psutil.Process(running.pid).children(recursive=True)
    assert children
    running.send_signal(signal.SIGINT)
    stdout, stderr = running.communicate(timeout=60)
    assert running.returncode == 130, stdout + stderr
    assert "Stopped by Ctrl-C" in stderr
    assert "Traceback" not in stderr
    assert not any(is_running(child.pid) for child in children)
    report = json.loads((check.folder / "runs" / "latest" / "result.json").read_text())
    assert report["ended_early"] == "stopped by Ctrl-C"


@pytest.mark.parametrize("stage", ["2", "3"])
def test_an_agent_whose_check_was_killed_ends_with_what_it_started(check: Checker, stage: str) -> None:
    running = check.start("--stage", stage, "--agent", f"{HERE / 'agents.py'}:StartsAChild")
    started = check.folder / "started"
    try:
        wait_for("the agent", lambda: started.exists() or running.poll() is not None, 120)
        pids = [int(pid) for pid in started.read_text().split()]
        assert all(is_running(pid) for pid in pids)
    finally:
        running.kill()
        running.communicate()
    wait_for("the agent and its child to end", lambda: not any(is_running(pid) for pid in pids))
