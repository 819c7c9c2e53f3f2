"""Who gets which GPUs, and which engine is meant."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import GpuUnfit
from harness.settings import load_settings
from harness.stack.gpu.machine import Machine
from harness.stack.gpu.split import engine_for, of_node, split
from harness.stack.images.catalogue import load_catalogue
from harness.stack.plan import make_plan, with_gpus
from tests.support.gpus import machine

CATALOGUE = load_catalogue(Path(__file__).parents[4])


def shared_out(count: int, **environ: str) -> tuple[str, str, str]:
    """The engine, and the cards for inference and training."""
    settings, there = load_settings(environ=environ), machine(count)
    engine = engine_for(settings, there, CATALOGUE)
    found = split(settings, there, engine)
    return engine, ",".join(found.inference), ",".join(found.train)


@pytest.mark.parametrize(
    ("count", "environ", "expected"),
    [
        (0, {}, ("llamacpp", "", "")),
        (0, {"ENGINE": "vllm"}, ("vllm", "", "")),
        (1, {}, ("sglang", "0", "0")),
        (2, {}, ("sglang", "0", "1")),
        (8, {}, ("sglang", "0,1,2,3", "4,5,6,7")),
        (3, {}, ("sglang", "0", "1,2")),
        (8, {"ENGINE": "vllm"}, ("vllm", "0,1,2,3", "4,5,6,7")),
        (8, {"FRAMEWORK": "verl"}, ("sglang", "0,1,2,3", "4,5,6,7")),
        (8, {"TP": "2"}, ("sglang", "0,1", "2,3,4,5,6,7")),
        (8, {"TP": "2", "DP": "4"}, ("sglang", "0,1,2,3,4,5,6,7", "")),
        (8, {"GPUS_TRAIN": "0,1"}, ("sglang", "2,3,4,5,6,7", "0,1")),
        (8, {"GPUS_TRAIN": "none"}, ("sglang", "0,1,2,3,4,5,6,7", "")),
        (8, {"GPUS_INFERENCE": "7"}, ("sglang", "7", "0,1,2,3,4,5,6")),
        (8, {"GPUS_INFERENCE": "all", "GPUS_TRAIN": "all"}, ("sglang", "0,1,2,3,4,5,6,7", "0,1,2,3,4,5,6,7")),
        (2, {"ENGINE": "llamacpp"}, ("llamacpp", "", "0,1")),
        (2, {"GPUS_INFERENCE": "none"}, ("llamacpp", "", "0,1")),
        (2, {"ENGINE": "external", "OPENAI_BASE_URL": "http://h/v1"}, ("external", "", "0,1")),
        (1, {"GPUS_TRAIN": "none"}, ("sglang", "0", "")),
    ],
)
def test_cards_are_shared_out(count: int, environ: dict[str, str], expected: tuple[str, str, str]) -> None:
    assert shared_out(count, **environ) == expected


@pytest.mark.parametrize(
    ("there", "environ", "says"),
    [
        (machine(0), {"ENGINE": "sglang"}, "needs an NVIDIA GPU, and there is none"),
        (machine(0), {"GPUS_INFERENCE": "0", "ENGINE": "vllm"}, "needs an NVIDIA GPU"),
        (machine(0), {"GPUS_TRAIN": "0"}, "needs an NVIDIA GPU"),
        (Machine(amd=True), {"ENGINE": "sglang"}, "AMD GPU"),
        (Machine(trouble="nvidia-smi doesn't answer"), {"ENGINE": "sglang"}, "doesn't answer"),
        (replace(machine(2), way=""), {"ENGINE": "sglang"}, "no runtime `nvidia` and no CDI"),
        (machine(2), {"GPUS_INFERENCE": "0,2"}, "no GPU 2, only GPUs 0,1"),
        (machine(1), {"GPUS_TRAIN": "0,1,2"}, "no GPU 1,2, only GPU 0"),
        (machine(2), {"GPUS_INFERENCE": "1,1"}, "names GPU 1 twice"),
        (machine(2), {"GPUS_INFERENCE": "0;1"}, "no number of a GPU"),
        (machine(2), {"GPUS_INFERENCE": "-1"}, "no number of a GPU"),
        (machine(2), {"GPUS_INFERENCE": "0,"}, "nothing is no number"),
        (machine(2), {"GPUS_INFERENCE": "0", "ENGINE": "llamacpp"}, "serves from the CPU"),
        (machine(2), {"GPUS_INFERENCE": "none", "ENGINE": "sglang"}, "without a card"),
    ],
)
def test_what_cannot_be_had_is_refused(there: Machine, environ: dict[str, str], says: str) -> None:
    settings = load_settings(environ=environ)
    with pytest.raises(GpuUnfit, match=says):
        split(settings, there, engine_for(settings, there, CATALOGUE))


def test_gpus_that_docker_cannot_hand_on_change_nothing_by_themselves() -> None:
    there = replace(machine(2), way="")
    settings = load_settings(environ={})
    assert engine_for(settings, there, CATALOGUE) == "llamacpp"
    assert not split(settings, there, "llamacpp").any


def test_the_engine_that_follows_is_known_to_be_nobodys_wish(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    plan = with_gpus(make_plan(load_settings(environ={})), machine(2), CATALOGUE)
    assert (plan.settings.engine, plan.engine_inferred, plan.settings.origin("engine")) == ("sglang", True, "default")
    asked = with_gpus(make_plan(load_settings(environ={"ENGINE": "sglang"})), machine(2), CATALOGUE)
    assert not asked.engine_inferred
    assert [gpu.index for gpu in asked.cards] == ["0"]


def test_a_framework_brings_its_own_pair() -> None:
    for name, pairs in CATALOGUE.frameworks.items():
        for engine, pair in pairs.items():
            assert CATALOGUE.engine_image(engine, name) == pair.engine_image
            assert CATALOGUE.framework_image(name.upper(), engine) == pair.image
        own_choice = next(iter(pairs.values()))
        assert CATALOGUE.framework_image(name, "llamacpp") == own_choice.image
    assert CATALOGUE.engine_image("vllm", "slime") == CATALOGUE.engines["vllm"]
    assert CATALOGUE.framework_image("own/image:1", "vllm") == "own/image:1"


@pytest.mark.parametrize(
    ("asked", "expected"), [("", ("0", "1")), ("all", ("0", "1")), ("none", ()), ("1", ("1",)), (" 1 , 0 ", ("1", "0"))]
)
def test_a_node_of_another_machine_has_all_its_cards_unless_named(asked: str, expected: tuple[str, ...]) -> None:
    assert of_node(load_settings(environ={"GPUS_TRAIN": asked}), machine(2)) == expected


def test_a_node_is_refused_cards_that_are_not_there_and_does_without_where_none_can_be_handed_on() -> None:
    for asked, says in (("2", "there is no GPU 2"), ("0,0", "names GPU 0 twice")):
        with pytest.raises(GpuUnfit, match=says):
            of_node(load_settings(environ={"GPUS_TRAIN": asked}), machine(2))
    assert of_node(load_settings(environ={}), replace(machine(2), way="")) == ()
    assert of_node(load_settings(environ={}), machine(0)) == ()
