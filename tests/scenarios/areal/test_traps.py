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
    wrong = ["int", "bool", "none", "list", "float32", "text"]
    stage4.samples([{**SAMPLE, "returns": one} for one in wrong])
    found = stage4("WrongTypes", "--global-bs", "6", "--group-size", "1")
    assert "0 of 6 came back" in found["areal.batch"]["detail"]
    assert "AReaL drops a run whose reward is" in found["areal.batch"]["detail"]
    assert "6 of 6 runs" in found["areal.rewards"]["detail"]
    assert set(found["areal.rewards"]["facts"]["types"]) == {"int", "bool", "NoneType", "list", "numpy.float32", "str"}


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
