"""What the self-test on a GPU would run; that it runs on is shown in tests/scenarios/gpu."""

from __future__ import annotations

from harness.stack.gpu.selftest import PROJECT, steps


def test_one_card_tries_each_engine_and_more_cards_try_parallelism() -> None:
    one = [step.name for step in steps(1, (1, 2)) if step.name.endswith("-up")]
    assert one == ["sglang-up", "vllm-up"]
    two = [step.name for step in steps(2, (1, 2)) if step.name.endswith("-up")]
    assert two == ["sglang-up", "vllm-up", "sglang-tp2-up", "vllm-dp2-up"]


def test_it_touches_its_own_project_alone_and_takes_it_down() -> None:
    found = steps(8, (1, 2))
    assert found[-1].name == "down"
    for step in found:
        if step.command[:2] in (("harness", "up"), ("harness", "down")):
            assert dict(step.environment)["PROJECT"] == PROJECT
        if step.command[0] == "docker" and step.command[1] != "info":
            assert any(word.startswith(f"{PROJECT}-") for word in step.command)
