"""Each trap of AReaL 1.0.4, with its real controller, workers and proxy, ends in a sentence that names it."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from harness.agent.source import locate
from harness.checks.samples import Sample
from harness.checks.stage4 import gather as gathering
from harness.checks.stage4 import job, rules
from harness.checks.stage4.data import Asked, Rolled
from harness.openai_api.http import Endpoint
from tests.scenarios.areal.conftest import AGENTS, SAMPLE, Stage4, areal_python
from tests.support import wrong_examples
from tests.support.tiny_model import write_folder
from tests.support.token_engine import KEY
from tests.support.wrong_examples import Example

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def test_rewards_of_each_type_that_areal_drops(stage4: Stage4) -> None:
    wrong = ["int", "bool", "none", "list", "float32", "text", "tensor"]
    stage4.samples([{**SAMPLE, "returns": one} for one in wrong])
    found = stage4("WrongTypes", "--global-bs", "7", "--group-size", "1")
    assert "0 of 7 came back" in found["areal.batch"]["detail"]
    assert "AReaL drops a run whose reward is" in found["areal.batch"]["detail"]
    assert "7 of 7 runs" in found["areal.rewards"]["detail"]
    assert set(found["areal.rewards"]["facts"]["types"]) == {
        *("int", "bool", "NoneType", "list", "numpy.float32", "str", "torch.Tensor"),
    }


def test_a_reward_that_is_no_number_reaches_the_trajectories(stage4: Stage4) -> None:
    found = stage4("NotANumber", "--global-bs", "1", "--group-size", "1")
    assert found["areal.rewards"]["status"] == "fail"
    assert "NaN" in found["areal.rewards"]["detail"] + found["areal.rewards"]["consequence"]


def test_an_agent_that_raises_takes_its_group_with_it(stage4: Stage4) -> None:
    stage4.samples([{**SAMPLE, "solution": "1"}, SAMPLE])
    found = stage4("Raises", "--global-bs", "2", "--group-size", "2")
    assert "1 of 2 came back" in found["areal.batch"]["detail"]
    assert "2 of 4 runs raised: KeyError: 'solution'" in found["areal.agent-raises"]["detail"]
    line = next(n for n, text in enumerate(AGENTS.read_text().splitlines(), 1) if 'data["solution"]' in text)
    assert found["areal.agent-raises"]["place"]["line"] == line


def test_v1_appended_to_the_address_of_areals_proxy(stage4: Stage4) -> None:
    found = stage4(f"{wrong_examples.FOLDER}/v1_appended.py:V1Appended", "--global-bs", "1", "--group-size", "1")
    assert found["areal.calls"]["status"] == "fail"
    assert "don't append it" in found["areal.calls"]["mend"]
    assert "404" in found["areal.calls"]["detail"]


def test_v1_twice_in_the_servers_address(stage4: Stage4) -> None:
    stage4.base_url += "/v1"
    found = stage4()
    assert found["areal.engine"]["status"] == "fail"
    assert found["areal.engine"]["mend"] == "the server's address ends in /v1 twice: once is enough"


# Blocks one module, as a litellm that is too new for AReaL lacks it.
LACKS = """
import sys

class Lacks:
    def find_spec(self, name, path=None, target=None):
        if name == "litellm.llms.anthropic.experimental_pass_through":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Lacks())
"""


def test_a_litellm_that_lacks_what_areals_proxy_imports(stage4: Stage4) -> None:
    (stage4.folder / "newer").mkdir()
    (stage4.folder / "newer/sitecustomize.py").write_text(LACKS)
    stage4.config["rollout"] |= {
        "setup_timeout": 3600,  # longer than this test may take
        "scheduling_spec": [
            {"cmd": "python3 -m areal.infra.rpc.rpc_server", "env_vars": {"PYTHONPATH": str(stage4.folder / "newer")}}
        ],
    }
    found = stage4()
    assert "this litellm is too new for it" in found["areal.starts"]["detail"]
    assert found["areal.starts"]["mend"] == "pip install litellm==1.81.3"


def test_a_tokenizer_that_is_not_there(stage4: Stage4) -> None:
    stage4.config["rollout"] |= {"tokenizer_path": "/nowhere/model", "setup_timeout": 3600}
    found = stage4()
    assert "there is no tokenizer at /nowhere/model" in found["areal.starts"]["detail"]
    assert "rollout.tokenizer_path" in found["areal.starts"]["mend"]


def test_turns_in_one_row_need_a_template_for_it(stage4: Stage4) -> None:
    stage4.config["rollout"]["agent"] = {"export_style": "concat"}
    found = stage4("TwoTurns", "--global-bs", "1", "--group-size", "1")
    assert "export_style is concat, and chat_template_type isn't" in found["areal.batch"]["detail"]
    assert "chat_template_type: concat" in found["areal.batch"]["mend"]


def test_an_agent_that_waits_for_ever_is_told_with_a_hang_dumps_verdict(stage4: Stage4) -> None:
    found = stage4("Waits", "--timeout", "20")
    assert "nothing moved any more" in found["areal.stalls"]["detail"]
    assert found["areal.stalls"]["facts"]["cause"]


@pytest.mark.parametrize("example", wrong_examples.by("stage 4"), ids=str)
def test_an_example_of_what_only_areal_shows(stage4: Stage4, example: Example) -> None:
    examples = wrong_examples.FOLDER.parent
    is_agent = example.path.suffix == ".py"
    agent = f"wrong/{example.name}" if is_agent else "agents/single_turn.py:SingleTurn"
    config = examples / "training/areal.yaml" if is_agent else example.path
    found = stage4(agent, "--config", str(config), "--global-bs", "2", "--group-size", "1",
                   WORKSPACE=str(examples), DRYDOCK_MODEL_FOLDER=str(stage4.folder / "model"))  # fmt: skip
    failed = {id_ for id_, one in found.items() if one["status"] == "fail"}
    assert failed == set(example.ids)
    sentence = {
        "package_missing.py": "No module named 'a_package_of_this_machine_alone'",
        "areal_unknown_key.yaml": "max_head_offpolicynes",
        "areal_launcher.yaml": "a worker lacks the package areal.infra.rpc_server",
    }[example.path.name]
    assert any(sentence in found[id_]["detail"] for id_ in example.ids)


def test_a_proxy_that_was_not_started(stage4: Stage4, monkeypatch: pytest.MonkeyPatch) -> None:
    made = job.write_job

    def without(*arguments: Any) -> Path:
        file = made(*arguments)
        file.write_text(json.dumps({**json.loads(file.read_text()), "start_proxy": False}))
        return file

    monkeypatch.setattr(gathering, "write_job", without)
    stage4.arguments("Sound")
    agent = locate(f"{AGENTS}:Sound", folders=[AGENTS.parent])
    asked = Asked("agent", "Sound", 1, 1)
    gathered = gathering.Gathered(Rolled(asked))
    setup = job.Setup(
        areal_python(),
        stage4.folder / "train.yaml",
        {},
        asked,
        (Sample(0, 1, SAMPLE),),
        Endpoint(stage4.base_url, KEY),
        agent,
    )
    monkeypatch.setattr(tempfile, "tempdir", str(stage4.temporary))
    asyncio.run(gathering.gather(setup, gathered, tell=lambda _rolled: None))
    stage4.nothing_left()
    found = {finding.id: finding for finding in rules.judge(gathered.rolled, agent)}
    assert found["areal.batch"].status == "fail"
    assert "0 of 1 came back" in found["areal.batch"].detail
    assert "no proxy was started for the agents" in found["areal.batch"].detail


def test_a_server_that_dies_in_the_middle(stage4: Stage4) -> None:
    stage4.engine.dies_after = 2
    found = stage4("Sound", "--timeout", "60")
    # AReaL asks again for a while; where that takes longer than we look on, nothing has moved.
    told = found.get("areal.batch") or found["areal.stalls"]
    assert told["status"] == "fail"
    assert "the inference server went away" in told["detail"]


def test_a_batch_that_may_never_come_is_called_staleness(stage4: Stage4) -> None:
    stage4.config["rollout"] |= {"max_head_offpolicyness": 0, "consumer_batch_size": 2}
    found = stage4()
    assert found["areal.stalls"]["facts"]["cause"] == "staleness"
    assert found["lint.areal-staleness"]["status"] == "fail"


def test_another_models_tokenizer(stage4: Stage4) -> None:
    write_folder(stage4.folder / "other")
    file = stage4.folder / "other/tokenizer.json"
    content = json.loads(file.read_text())
    vocabulary = content["model"]["vocab"]
    vocabulary["a"], vocabulary["o"] = vocabulary["o"], vocabulary["a"]
    file.write_text(json.dumps(content))
    stage4.config["rollout"]["tokenizer_path"] = str(stage4.folder / "other")
    found = stage4()
    assert "the server read “Paris”" in found["areal.tokenizer"]["detail"]
    assert "“Poris”" in found["areal.tokenizer"]["detail"]


@pytest.mark.parametrize("backend", ["d4t2", "vlm:d1"])
def test_a_backend_that_is_none(stage4: Stage4, backend: str) -> None:
    stage4.config["rollout"]["backend"] = backend
    found = stage4()
    assert found["lint.areal-dp-size"]["status"] == "fail"
    assert backend in found["lint.areal-dp-size"]["detail"]


def test_a_configuration_without_a_section_rollout(stage4: Stage4) -> None:
    del stage4.config["rollout"]
    done = stage4.run(*stage4.arguments("Sound"))
    assert done.returncode == 2
    assert "has no section rollout: there is nothing to roll out with" in done.stderr


def test_a_reward_for_an_id_that_nobody_knows(stage4: Stage4) -> None:
    found = stage4("UnknownId")
    assert found["areal.rewards"]["status"] == "fail"
    assert "id" in found["areal.rewards"]["detail"]


def test_an_agent_that_no_worker_can_import_by_its_name(stage4: Stage4) -> None:
    (stage4.folder / "elsewhere").mkdir()
    (stage4.folder / "elsewhere/my_agent.py").write_text(AGENTS.read_text())
    found = stage4("my_agent:Sound", WORKSPACE=str(stage4.folder / "elsewhere"))
    assert found["areal.importable"]["status"] == "fail"
    assert "AReaL's worker doesn't find the module my_agent" in found["areal.importable"]["detail"]
    assert "PYTHONPATH" in found["areal.importable"]["mend"]


def test_a_run_that_never_asks_the_model(stage4: Stage4) -> None:
    found = stage4("NoCall")
    assert "a run made no call to the model" in found["areal.batch"]["detail"]
    assert found["areal.calls"]["status"] == "fail"
