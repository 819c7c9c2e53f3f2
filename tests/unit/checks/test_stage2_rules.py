from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from harness.agent import rewards
from harness.agent.runner import Trace
from harness.agent.source import AgentSource, RunMethod
from harness.checks import samples, stage2_rules
from harness.checks.end_rules import waiting_place
from harness.checks.findings import Finding
from harness.checks.gather import Gathered
from harness.openai_api.calls import Call
from harness.openai_api.reading import Reply, ToolCall

AGENT = AgentSource("my_agent:A", "my_agent", "A", Path("/w/my_agent.py"), (), 3, RunMethod(4, True, (9,), True))
PROXY = "http://127.0.0.1:4000"
RETURN = {"file": "/w/my_agent.py", "line": 9, "function": "run", "source": "return x", "own": True}


def frame(function: str, line: int = 1, *, own: bool = True, file: str = "/w/my_agent.py") -> dict[str, Any]:
    return {"file": file, "line": line, "function": function, "source": f"{function}()", "own": own}


def call(**changes: Any) -> Call:
    reply = Reply(id="c1", text="Paris", finish_reason="stop", prompt_tokens=10, completion_tokens=4)
    fields: dict[str, Any] = {
        "number": 1,
        "run": 0,
        "method": "POST",
        "path": "/v1/chat/completions",
        "protocol": "chat",
        "asked": {},
        "messages": 1,
        "status": 200,
        "failure": "",
        "started": 0.1,
        "seconds": 0.5,
        "streamed": False,
        "first_token_seconds": None,
        "reply": reply,
    }
    return Call(**{**fields, **changes})


def event(name: str, **details: Any) -> dict[str, Any]:
    return {"event": name, **details}


BEGUN = [event("loaded"), event("constructed"), event("started")]
LEFT = event("left", tasks=[], threads=[], shared_client_closed=False)


def returning(value: Any, **changes: Any) -> Gathered:
    """A run that returned a value after one call."""
    returned = event("returned", seconds=1.0, cpu_seconds=0.1, place=RETURN, reward=rewards.describe(value).as_dict())
    fields: dict[str, Any] = {"calls": [call()], "seen": [(PROXY, call())], "proxy_origin": PROXY}
    trace = Trace(events=[*BEGUN, returned, LEFT, event("ended")], exit_status=0)
    return Gathered(**{"trace": trace, **fields, **changes})


def raising(kind: str, message: str = "", *, during: str = "run", **details: Any) -> Gathered:
    frames = [frame("run", 5), frame("deep", 7), frame("send", 9, own=False, file="/lib/openai/client.py")]
    raised = event(
        "raised",
        during=during,
        type=kind,
        message=message,
        exit_code=None,
        seconds=0.2,
        frames=frames,
        traceback="",
    )
    begun = BEGUN if during != "import" else []
    return Gathered(Trace(events=[*begun, {**raised, **details}, event("ended")], exit_status=0), [call()])


def judge(run: Gathered) -> dict[str, Finding]:
    found = stage2_rules.judge(run, AGENT)
    assert len({finding.id for finding in found}) == len(found)
    for finding in found:
        assert finding.status == "pass" or finding.consequence, f"{finding.id} says nothing of what follows"
    return {finding.id: finding for finding in found}


def test_a_good_run_passes_and_shows_the_models_answer() -> None:
    found = judge(returning(1.0))
    assert {finding.status for finding in found.values()} == {"pass"}
    assert list(found) == ["agent.load", "run.end", "run.calls", "run.answers", "run.reward"]
    assert "Paris" in found["run.answers"].detail
    assert found["run.calls"].detail == "1 call to /v1/chat/completions, 10 tokens in, 4 out, 0.50 s"


class Float32:
    def __float__(self) -> float:
        return 0.5


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1, "1 is an int, not a float"),
        (True, "True is a bool, not a float"),
        (None, "run returned nothing (None)"),
        ("good", "'good' is a str, not a reward"),
        ([1.0], "[1.0] is a list, not a reward"),
        (Float32(), "Float32"),
        (float("nan"), "nan (float)"),
        (float("inf"), "inf (float)"),
        ({}, "an empty dict"),
        ({"c1": float("nan")}, "the reward of c1 is nan"),
        ({"c1": "x"}, "the reward of c1 is 'x'"),
        ({"c2": 1.0}, "1 of 1 keys are no completion's id: c2"),
        ({3: 1.0}, "keys are of type int"),
    ],
)
def test_a_reward_that_training_loses_fails_at_its_line(value: Any, words: str) -> None:
    finding = judge(returning(value))["run.reward"]
    assert finding.status == "fail"
    assert words in finding.detail
    assert finding.mend
    assert finding.place is not None
    assert (finding.place.file, finding.place.line, finding.place.source) == ("/w/my_agent.py", 9, "return x")


@pytest.mark.parametrize("value", [0.0, -1.5, {"c1": 1.0}, {"c1": 1}])
def test_a_reward_that_training_takes_passes(value: Any) -> None:
    assert judge(returning(value))["run.reward"].status == "pass"


def test_the_only_return_is_named_where_a_debugger_hid_the_line() -> None:
    run = returning(1)
    returned = run.trace.event("returned")
    assert returned is not None
    returned["place"] = None
    place = judge(run)["run.reward"].place
    assert place is not None
    assert place.line == 9


def test_a_run_without_calls_fails() -> None:
    found = judge(returning(1.0, calls=[], seen=[]))
    assert found["run.calls"].status == "fail"
    assert "none was made" in found["run.calls"].detail


def test_calls_with_another_key_are_told() -> None:
    assert "3 came with another" in judge(returning(1.0, calls=[], seen=[], refused=3))["run.calls"].detail


def test_calls_to_another_server_fail() -> None:
    found = judge(returning(1.0, calls=[], seen=[("https://api.example.com", call())]))
    assert "run.calls" not in found
    assert found["run.elsewhere"].status == "fail"
    assert "https://api.example.com/v1/chat/completions" in found["run.elsewhere"].detail


def test_a_list_of_models_is_no_call_of_a_model() -> None:
    other = call(protocol="other", path="/v1/models", reply=None)
    assert judge(returning(1.0, calls=[other], seen=[]))["run.calls"].status == "fail"


def test_some_failed_calls_warn_and_all_fail() -> None:
    failed = call(status=500, reply=None, response={"error": {"message": "it broke"}})
    some = judge(returning(1.0, calls=[failed, call()]))["run.calls"]
    assert (some.status, "HTTP 500 for /v1/chat/completions: it broke" in some.detail) == ("warn", True)
    assert judge(returning(1.0, calls=[failed]))["run.calls"].status == "fail"


def test_a_doubled_v1_is_explained() -> None:
    failed = call(status=404, path="/v1/v1/chat/completions", reply=None)
    assert "don't append it" in judge(returning(1.0, calls=[failed]))["run.calls"].mend


def test_an_empty_answer_warns_and_a_cut_one_is_told() -> None:
    assert judge(returning(0.0, calls=[call(reply=Reply(id="c1"))]))["run.answers"].status == "warn"
    cut = call(reply=Reply(id="c1", text="Par", finish_reason="length"))
    assert "1 of 1 cut at the token limit" in judge(returning(0.0, calls=[cut]))["run.answers"].detail


def test_answers_that_are_all_cut_short_are_no_plain_pass() -> None:
    one = call(reply=Reply(id="c1", text="P", finish_reason="length", completion_tokens=1))
    finding = judge(returning(0.0, calls=[one, one]))["run.answers"]
    assert (finding.status, finding.mend) == ("warn", "raise max_tokens")
    assert "2 of 2 cut" in finding.detail
    whole = call(reply=Reply(id="c2", text="P", finish_reason="stop", completion_tokens=1))
    assert judge(returning(0.0, calls=[one, whole]))["run.answers"].status == "pass"
    long = call(reply=Reply(id="c3", text="Paris is", finish_reason="length", completion_tokens=16))
    assert judge(returning(0.0, calls=[one, long]))["run.answers"].status == "pass"


def test_a_loop_that_tries_the_same_again_says_what_it_gets() -> None:
    refused = call(status=404, reply=None, response={"error": {"message": "model m is not found"}})
    run = cut(None)
    run.calls = [refused] * 778 + [call(status=None, reply=None, failure="the run was cut", abandoned=True)]
    finding = judge(run)["run.never-ends"]
    assert "778 of 779 calls failed alike: HTTP 404 for /v1/chat/completions: model m is not found" in finding.detail
    assert "OPENAI_MODEL" in finding.mend.splitlines()[0]
    assert "attempt" in finding.mend


def test_a_few_failures_of_many_calls_are_no_endless_tries() -> None:
    refused = call(status=500, reply=None, response={"error": {"message": "busy"}})
    run = cut(None)
    run.calls = [refused] * 10 + [call()] * 10
    assert "alike" not in judge(run)["run.never-ends"].detail
    run.calls = [refused] * 3
    assert "alike" not in judge(run)["run.never-ends"].detail


def test_a_coroutine_is_to_be_awaited_and_not_made_a_float() -> None:
    async def judged() -> float:
        return 1.0

    left = judged()
    try:
        finding = judge(returning(left))["run.reward"]
    finally:
        left.close()
    assert finding.status == "fail"
    assert "await" in finding.mend
    assert "float" not in finding.mend


def test_a_tool_call_is_an_answer() -> None:
    tools = call(reply=Reply(id="c1", tool_calls=[ToolCall("add", '{"a": 1}')]))
    assert 'add({"a": 1})' in judge(returning(0.0, calls=[tools]))["run.answers"].detail


def test_an_exception_is_told_with_the_users_frames_only() -> None:
    finding = judge(raising("openai.APIError", "no\n such   thing"))["run.raises"]
    assert finding.detail == "openai.APIError: no such thing (raised in openai/client.py:9)"
    assert [place.function for place in finding.stack] == ["run", "deep"]
    assert finding.place == finding.stack[-1]


def test_an_exit_is_told_as_one() -> None:
    finding = judge(raising("SystemExit", "3", exit_code=3))["run.exit"]
    assert finding.detail.startswith("sys.exit(3)")
    assert "ends the process" in finding.consequence


def test_an_exit_within_a_task_counts_more_than_the_cancelling_it_causes() -> None:
    run = raising("asyncio.exceptions.CancelledError")
    run.trace.events += raising("SystemExit", during="loop", exit_code=5).trace.events[3:4]
    assert judge(run)["run.exit"].detail.startswith("sys.exit(5)")


def test_an_import_that_fails_is_told() -> None:
    found = judge(raising("ModuleNotFoundError", "No module named 'x'", during="import"))
    assert found["agent.import"].status == "fail"
    assert "run.end" not in found


def test_an_unfit_agent_is_told_at_its_line() -> None:
    unfit = event("unfit", kind="run-not-async", what="A.run is no async function", consequence="c", mend="m", line=4)
    finding = judge(Gathered(Trace(events=[event("loaded"), unfit, event("ended")], exit_status=0)))
    assert list(finding) == ["agent.run-not-async"]
    place = finding["agent.run-not-async"].place
    assert place is not None
    assert place.line == 4


def test_os_exit_is_told_at_its_line() -> None:
    exiting = event("exiting", status=4, frames=[frame("run", 6)])
    finding = judge(Gathered(Trace(events=[*BEGUN, exiting], exit_status=4)))["run.exit"]
    assert finding.detail == "os._exit(4)"
    assert finding.place is not None
    assert finding.place.line == 6


def test_a_crash_is_told_with_the_line_that_faulthandler_wrote() -> None:
    trace = Trace(events=list(BEGUN), exit_status=-11)
    trace.errors.add(f'Fatal Python error: Segmentation fault\n\n  File "{__file__}", line 1 in run\n'.encode())
    finding = judge(Gathered(trace))["run.exit"]
    assert finding.detail == "the process ended with signal SIGSEGV"
    assert finding.place is not None
    assert (finding.place.file, finding.place.line) == (__file__, 1)


def test_a_kill_from_outside_hints_at_memory() -> None:
    finding = judge(Gathered(Trace(events=list(BEGUN), exit_status=-9)))["run.exit"]
    assert "SIGKILL" in finding.detail
    assert "memory" in finding.mend


def cut(stacks: dict[str, Any] | None, **changes: Any) -> Gathered:
    fields: dict[str, Any] = {"cut": 4.0, "cut_during": "run", "ended_by": "cancel", "stacks": stacks}
    return Gathered(Trace(events=list(BEGUN), exit_status=-9, **{**fields, **changes}))


IDLE = {"name": "MainThread", "main": True, "frames": [frame("select", own=False, file="/lib/selectors.py")]}
WAIT = frame("wait", 213, own=False, file="/lib/asyncio/locks.py")


def test_a_run_that_waits_for_ever_shows_where() -> None:
    task = {"name": "Task-1", "frames": [frame("run", 5), frame("ask", 8), WAIT]}
    finding = judge(cut({"tasks": [task], "threads": [IDLE]}))["run.never-ends"]
    assert finding.status == "fail"
    assert "not done after 4 s; waits at /w/my_agent.py:8, in wait (asyncio/locks.py:213)" in finding.detail
    assert [place.line for place in finding.stack] == [5, 8]
    assert finding.mend == ""


def test_a_run_that_blocks_the_loop_is_told_apart() -> None:
    thread = {"name": "MainThread", "main": True, "frames": [frame("run", 6)]}
    finding = judge(cut({"tasks": [], "threads": [thread]}, ended_by="kill"))["run.never-ends"]
    assert "blocks at /w/my_agent.py:6; it didn't heed being cancelled and was killed" in finding.detail
    assert "every other run" in finding.consequence


def test_a_run_that_gathers_is_explained_by_the_task_it_waits_for() -> None:
    tasks = [
        {"name": "Task-1", "frames": [frame("run", 5)]},
        {"name": "Task-2", "frames": [frame("one", 7), WAIT]},
    ]
    frames, how = waiting_place({"tasks": tasks, "threads": [IDLE]})
    assert ([item["function"] for item in frames], how) == (["one", "wait"], "waits")


def test_a_run_of_which_nothing_could_be_seen_is_told_all_the_same() -> None:
    finding = judge(cut(None))["run.never-ends"]
    assert finding.detail == "not done after 4 s"
    assert "TIMEOUT=" in finding.mend


def test_loading_that_never_ends_is_told_apart() -> None:
    found = judge(Gathered(Trace(cut=60.0, cut_during="load", ended_by="kill", exit_status=-9)))
    assert list(found) == ["agent.never-loads"]


def test_calls_under_way_at_the_cut_are_no_failures() -> None:
    run = cut(None)
    run.calls = [call(), call(status=None, reply=None, failure="the run was cut", abandoned=True)]
    found = judge(run)
    assert "1 call to the model under way" in found["run.never-ends"].detail
    assert found["run.calls"].status == "pass"


def test_a_closed_shared_client_fails() -> None:
    run = returning(1.0)
    run.trace.events[4] = {**LEFT, "shared_client_closed": True}
    assert judge(run)["run.shared-client"].status == "fail"


def test_what_is_left_behind_warns() -> None:
    run = returning(1.0)
    run.trace.events[4] = {**LEFT, "tasks": ["Task-2", "Task-3"], "threads": ["mine"]}
    run.trace.left_processes = ["sleep 1000", "sleep 2000"]
    detail = judge(run)["run.left-behind"].detail
    assert "2 tasks (Task-2, Task-3); 1 thread (mine); 2 processes (sleep 1000, sleep 2000)" in detail


def test_a_flood_warns_with_its_first_line() -> None:
    run = returning(1.0)
    run.trace.output.add(b"\nhello\n" + b"x" * 2_000_000)
    finding = judge(run)["run.output"]
    assert "2.0 MB printed in one run, beginning with “hello”" in finding.detail


def test_whether_the_process_saw_all_calls_is_noted() -> None:
    assert stage2_rules.figures(returning(1.0))["seen_in_process"] is True
    assert stage2_rules.figures(returning(1.0, seen=[]))["seen_in_process"] is False


def test_tokens_that_nobody_counted_are_unknown_not_zero() -> None:
    figures = stage2_rules.figures(returning(1.0, calls=[call(reply=Reply(id="c1", text="x"))]))
    assert figures["completion_tokens"] is None


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        ("", "fail", "d.jsonl is empty"),
        ('{"a": 1}\n', "pass", "1 sample in d.jsonl"),
        ('{"a": 1}\nno\n[]\n', "fail", "2 of 3 lines are no sample: line 2: no JSON"),
    ],
)
def test_the_data_set_is_judged(tmp_path: Path, content: str, status: str, words: str) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(content)
    finding = stage2_rules.data_lines(samples.read(path))
    assert (finding.status, words in finding.detail) == (status, True), finding.detail
    if "no\n" in content:
        assert finding.place is not None
        assert finding.place.line == 2
        assert f"sed -n 2p {path}" in finding.mend


def test_nothing_of_this_needs_a_process() -> None:
    assert "harness.checks.child" not in sys.modules
