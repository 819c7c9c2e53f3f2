"""Each trap of AReaL 1.0.4 ends in a sentence; the logs are its own lines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.checks.findings import Finding
from harness.checks.stage4 import rules
from harness.checks.stage4.data import Asked, Rolled
from harness.openai_api.reading import Reply
from tests.unit.checks.stage4.rolled import (
    AGENT,
    call,
    engine_call,
    event,
    note,
    raised,
    returned,
    rolled,
    trajectory,
)


def judged(batch: Rolled) -> dict[str, Finding]:
    return {finding.id: finding for finding in rules.judge(batch, AGENT)}


def failed(batch: Rolled) -> dict[str, str]:
    return {id_: finding.detail for id_, finding in judged(batch).items() if finding.status == "fail"}


def test_a_sound_batch_passes_every_rule() -> None:
    found = judged(rolled())
    assert {finding.status for finding in found.values()} == {"pass"}
    assert set(found) == {
        "areal.starts", "areal.batch", "areal.importable", "areal.calls", "areal.rewards", "areal.tensors",
        "areal.logprobs", "areal.round-trip", "areal.tokenizer", "areal.conversation", "areal.versions",
        "areal.template",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (1, "1 is an int, not a float"),
        (True, "True is a bool, not a float"),
        (None, "run returned nothing (None)"),
        ([1.0], "[1.0] is a list, not a reward"),
        (float("nan"), "nan (float)"),
        ({}, "an empty dict"),
    ],
)
def test_a_reward_that_areal_drops(value: Any, sentence: str) -> None:
    batch = rolled(trajectories=[], notes=[returned(value), returned(value, 1, "s1")],
                   log="ValueError: Invalid reward type: <class 'int'>\n")  # fmt: skip
    found = judged(batch)
    assert found["areal.rewards"].status == "fail"
    assert sentence in found["areal.rewards"].detail
    assert found["areal.rewards"].place is not None
    assert found["areal.batch"].status == "fail"
    assert "0 of 2 came back" in found["areal.batch"].detail


@pytest.mark.parametrize(
    ("log", "sentence", "mend"),
    [
        (
            "ValueError: proxy_addr is required for agent workflows (non-RolloutWorkflow).",
            "no proxy was started for the agents",
            "start_proxy()",
        ),
        (
            "ValueError: Failed to import workflow from string 'my_agent.A': No module named 'my_agent'",
            "the worker can't import my_agent.A",
            "PYTHONPATH",
        ),
        (
            "TypeError: Agent's 'run' method must be an async function. Got A.run which is not a coroutine function.",
            "its run is no async function",
            "async def run",
        ),
        ("aiohttp.ClientResponseError: 400 No interactions in session", "made no call to the model", "base_url"),
        ("Cannot connect to host 127.0.0.1:8000 ssl:default", "the inference server went away", "make logs"),
        ("ERROR: Rollout timed out after 240.0s", "longer than rollout.request_timeout (240.0 s)", "STAGE=2"),
        ("429, message='Too Many Requests: no capacity'", "let no more sessions in (429)", "max_concurrent_rollouts"),
        ("something broke\nmy_package.Broken: no\nRuntimeError: out of paper", "RuntimeError: out of paper", ""),
    ],
)
def test_a_batch_that_comes_back_short_says_why(log: str, sentence: str, mend: str) -> None:
    found = judged(rolled(trajectories=[], notes=[], agents=[], log=log))["areal.batch"]
    assert found.status == "fail"
    assert sentence in found.detail
    assert mend in found.mend


@pytest.mark.parametrize(
    ("log", "phase", "sentence"),
    [
        (
            "RuntimeError: Refusing to start server on non-loopback host '10.0.0.2' with the default admin API key",
            "proxy",
            "the admin key that everybody knows",
        ),
        (
            "ModuleNotFoundError: No module named 'litellm.llms.anthropic.experimental_pass_through'",
            "proxy",
            "this litellm is too new",
        ),
        (
            "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 14641): address already in use",
            "proxy",
            "port 14641, which AReaL chose for its proxy, was taken",
        ),
        ("ModuleNotFoundError: No module named 'vllm'", "workers", "AReaL can't start vllm itself"),
        (
            "OSError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/no/where'. Use `repo_type`",
            "proxy",
            "there is no tokenizer at /no/where",
        ),
        ("/usr/bin/python3: No module named areal.infra.rpc_server", "workers", "lacks the package areal.infra.rpc_s"),
        (
            "OSError: /nowhere is not a local folder and is not a valid model identifier listed on the hub",
            "proxy",
            "there is no tokenizer at",
        ),
    ],
)
def test_a_start_that_fails_says_the_workers_own_reason(log: str, phase: str, sentence: str) -> None:
    phases = ("start", "import", "config", "workers", "proxy")
    batch = rolled(phases=phases[: phases.index(phase) + 1], notes=[], agents=[], engine=[], log=log, early="x",
                   exit_status=-9)  # fmt: skip
    found = judged(batch)["areal.starts"]
    assert found.status == "fail"
    assert sentence in found.detail


def test_what_areal_refuses_in_the_configuration_is_said_in_its_own_words() -> None:
    text = "Key 'max_head_offpolicynes' not in 'InferenceEngineConfig'"
    more = [event("failed", phase="config", type="ConfigKeyError", text=text, traceback="")]
    batch = rolled(phases=("start", "import", "config"), notes=[], agents=[], engine=[], more=more)
    assert text in failed(batch)["areal.starts"]


def test_the_wait_of_the_staleness_trap_has_a_name() -> None:
    config = event("config", changed={}, max_head_offpolicyness=0, consumer_batch_size=4)
    batch = rolled(
        phases=("start", "import", "config", "workers", "proxy", "rollout"),
        asked=Asked("agent", "my_agent.py:A", 16, 1),
        trajectories=[],
        progress={"enqueued": 12, "running": 0, "accepted": 4, "rejected": 0, "capacity": 0},
        more=[config],
        stall="capacity",
        verdict={"cause": "staleness", "evidence": ["the controller waits"], "next": []},
    )
    found = judged(batch)
    stalls = found["areal.stalls"]
    assert stalls.status == "fail"
    assert "12 enqueued, 0 running, 4 accepted" in stalls.detail
    assert "staleness" in stalls.detail
    assert "(0 + version + 1) × 4" in stalls.consequence
    assert "consumer_batch_size" in stalls.mend
    assert "areal.batch" not in found


def test_a_server_that_fails_is_told_from_the_calls_to_it() -> None:
    dead = call("/v1/completions", status=502, failure="the server can't be reached", reply=None)
    told: dict[str, Any] = {"trajectories": [], "notes": [raised("InternalServerError", "Error code: 500")]}
    found = judged(rolled(**told, engine=[engine_call(), dead]))["areal.batch"]
    assert "the inference server went away: 1 of 2 calls to it failed" in found.detail
    busy = call("/v1/completions", status=500, reply=None)
    assert "the inference server answered 500" in judged(rolled(**told, engine=[busy]))["areal.batch"].detail
    assert "the agent raised" in judged(rolled(**told))["areal.batch"].detail


def test_a_standstill_has_the_reason_that_stands_in_a_log() -> None:
    progress = {"enqueued": 0, "running": 2, "accepted": 0, "rejected": 0, "capacity": 6}
    phases = ("start", "import", "config", "workers", "proxy", "rollout")
    told: dict[str, Any] = {"phases": phases, "trajectories": [], "notes": [], "progress": progress, "stall": "still"}
    found = judged(rolled(**told, log="ServerDisconnectedError: Server disconnected"))["areal.stalls"]
    assert "nothing moved any more: 0 enqueued, 2 running" in found.detail
    assert "a log says: the inference server went away" in found.detail
    assert found.mend == "make logs S=inference"
    assert "a log says" not in judged(rolled(**told))["areal.stalls"].detail


def test_an_agent_that_raises_is_shown_with_its_line() -> None:
    asked = Asked("agent", "my_agent.py:A", 1, 2)
    found = judged(rolled(asked=asked, trajectories=[], notes=[raised(), returned(1.0, 0, "s1")]))["areal.agent-raises"]
    assert found.detail == "1 of 2 runs raised: KeyError: 'answer'"
    assert found.place is not None
    assert found.place.line == 7
    assert "whole group" in found.consequence


def test_an_agent_that_the_worker_does_not_find_by_name_is_told() -> None:
    notes = [note("found", importable=False, module="my_agent"), returned(1.0), returned(1.0, 1, "s1")]
    found = judged(rolled(notes=notes))["areal.importable"]
    assert found.status == "warn"
    assert "/w" in found.mend


def test_an_agent_that_was_named_by_its_module_and_is_not_found_fails() -> None:
    notes = [note("found", importable=False, module="my_agent"), returned(1.0), returned(1.0, 1, "s1")]
    for given, status in (("my_agent:A", "fail"), ("my_agent.A", "fail"), ("x/my_agent.py:A", "warn")):
        agent = replace(AGENT, given=given)
        (found,) = [one for one in rules.judge(rolled(notes=notes), agent) if one.id == "areal.importable"]
        assert found.status == status


def test_v1_appended_is_told_from_the_path() -> None:
    bad = call("/v1/chat/completions", status=404, reply=None)
    found = judged(rolled(trajectories=[], agents=[("s0", bad)], notes=[raised("NotFoundError", "404")]))["areal.calls"]
    assert found.status == "fail"
    assert "no /v1" in found.mend


def test_rewards_must_come_back_as_they_were_returned() -> None:
    other = rolled(trajectories=[trajectory(reward=0.0), trajectory()])
    assert "not those that the agent returned" in failed(other)["areal.rewards"]


@pytest.mark.parametrize(
    ("spoilt", "id_", "sentence"),
    [
        ({"loss_mask": [[0, 0, 1, 1, 1, 0]]}, "areal.loss-mask", "counts tokens of the prompt"),
        ({"loss_mask": [[0, 0, 0, 0, 1, 0]]}, "areal.loss-mask", "leaves out tokens of the answer"),
        ({"input_ids": [[5, 6, 7, 8, 3, 0]]}, "areal.round-trip", "no prompt and answer of any call"),
        ({"logprobs": [[0.0, 0.0, 0.0, -0.5, -9.0, 0.0]]}, "areal.round-trip", "not those that the server gave"),
        ({"logprobs": [[0.0, 0.0, 0.0, "nan", -1.25, 0.0]]}, "areal.logprobs", "token 3 is nan"),
        ({"logprobs": [[0.0, 0.0, 0.0, 0.5, -1.25, 0.0]]}, "areal.logprobs", "token 3 is 0.5"),
        ({"versions": [[-1, -1, -1, 3, 3, -1]]}, "areal.versions", "generated tokens have [3]"),
    ],
)
def test_a_spoilt_tensor_is_found(spoilt: dict[str, Any], id_: str, sentence: str) -> None:
    assert sentence in failed(rolled(trajectories=[trajectory(**spoilt), trajectory()]))[id_]


def test_tensors_of_another_shape_or_kind_are_found() -> None:
    odd: dict[str, Any] = {
        "logprobs": {"shape": [1, 5], "dtype": "float32"},
        "rewards": {"shape": [1], "dtype": "int64"},
    }
    detail = failed(rolled(trajectories=[trajectory(shapes=odd), trajectory()]))["areal.tensors"]
    assert "logprobs is 1×5, input_ids 1×6" in detail
    assert "1 more" in detail


def test_a_row_of_several_calls_has_each_earlier_answer_in_its_mask() -> None:
    first = engine_call([5, 6], [7], [-0.1])
    second = engine_call([5, 6, 7, 8], [9], [-0.2])
    rows: dict[str, Any] = {
        "input_ids": [[5, 6, 7, 8, 9, 0]],
        "loss_mask": [[0, 0, 1, 0, 1, 0]],
        "logprobs": [[0.0, 0.0, -0.1, 0.0, -0.2, 0.0]],
        "versions": [[-1, -1, 0, -1, 0, -1]],
    }
    asked = Asked("agent", "my_agent.py:A", 1, 1)
    sound = rolled(asked=asked, engine=[first, second], notes=[returned(1.0)], trajectories=[trajectory(**rows)])
    assert "areal.loss-mask" not in judged(sound)
    assert judged(sound)["areal.round-trip"].status == "pass"


def test_another_models_tokenizer_is_told_from_the_servers_own_text() -> None:
    texts = [{"prompt": "?", "answer": "Pxris", "answer_plain": "Pxris"}]
    batch = rolled(trajectories=[{**trajectory(), "texts": texts}, {**trajectory(), "texts": texts}])
    assert "the server read “Paris”" in failed(batch)["areal.tokenizer"]


def test_a_special_token_in_the_midst_of_an_answer_is_no_other_text() -> None:
    """A small model writes ``<repo_name>`` as a word; AReaL leaves it in the agent's answer, the server may not."""
    texts = [{"prompt": "?", "answer": "Paris<repo_name> .<|im_end|>", "answer_plain": "Paris ."}]
    for got in ("Paris<repo_name> .", "Paris ."):
        one = call("/chat/completions", reply=Reply(id="c1", text=got, finish_reason="stop"))
        batch = rolled(agents=[("s0", one)], trajectories=[{**trajectory(), "texts": texts}])
        assert judged(batch)["areal.conversation"].status == "pass", got
    another = call("/chat/completions", reply=Reply(id="c1", text="London<repo_name>", finish_reason="stop"))
    batch = rolled(agents=[("s0", another)], trajectories=[{**trajectory(), "texts": texts}])
    assert "London<repo_name>" in failed(batch)["areal.conversation"]


def test_a_server_that_leaves_special_tokens_in_has_the_same_tokenizer() -> None:
    texts = [{"prompt": "?", "answer": "Paris<|im_end|>", "answer_plain": "Paris"}]
    for text in ("Paris<|im_end|>", "Paris"):
        asked = engine_call()
        assert isinstance(asked.response, dict)
        asked.response["choices"][0]["text"] = text
        batch = rolled(engine=[asked], trajectories=[{**trajectory(), "texts": texts}])
        assert judged(batch)["areal.tokenizer"].status == "pass", text


def test_a_template_that_rewrites_earlier_turns_is_told() -> None:
    more = [event("template", there=True, prompt_kept=True, answer_kept=False, first="a", later="b")]
    found = judged(rolled(more=more))["areal.template"]
    assert found.status == "warn"
    assert "an answer before it" in found.detail


def test_what_areal_leaves_behind_is_told() -> None:
    found = judged(rolled(left=["python -m areal.infra.rpc.rpc_server --port 1", "tee -a x.log"]))["areal.left"]
    assert "2 processes" in found.detail


def test_a_reward_functions_rewards_are_those_of_the_rows() -> None:
    asked = Asked("rlvr", "rewards.py:reward", 2, 1)
    sound = rolled(asked=asked, notes=[], agents=[], trajectories=[trajectory(), trajectory(reward=0.0)])
    assert judged(sound)["areal.rewards"].detail == "2; mean 0.500, from 0 to 1"
    assert judged(sound)["areal.starts"].detail.startswith("controller, worker and engine")
    nan = rolled(asked=asked, notes=[], agents=[], trajectories=[trajectory(reward=float("nan")), trajectory()])
    assert judged(nan)["areal.rewards"].status == "fail"


SCRIPT = "#!/bin/bash\n#SBATCH --job-name=e_t:check\n#SBATCH --nodes=1\n#SBATCH --mem=32768M\n\nsrun true\n"


@pytest.mark.parametrize(
    ("told", "status", "sentence"),
    [
        ({}, "skip", "written by AReaL and not submitted; bash reads it: nodes=1, mem=32768M"),
        ({"slurm": "sbatch: Job 7 to start at"}, "skip", "bash and sbatch --test-only read it"),
        ({"slurm": "error: Invalid partition", "accepted": False}, "fail", "refuses AReaL's job: error: Invalid"),
        ({"syntax": "line 9: unexpected EOF"}, "fail", "bash can't read AReaL's job: line 9"),
        ({"script": "", "refused": "ValueError: entire nodes"}, "fail", "writes no job for its workers: ValueError"),
    ],
)
def test_a_slurm_job_is_looked_at_and_never_passes(told: dict[str, Any], status: str, sentence: str) -> None:
    sound = {"script": SCRIPT, "refused": "", "syntax": "", "slurm": None, "accepted": True}
    found = judged(rolled(more=[event("slurm", **(sound | told))]))["areal.slurm"]
    assert found.status == status
    assert sentence in found.detail
