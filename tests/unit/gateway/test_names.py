"""The table of names by itself."""

from __future__ import annotations

from gateway.names import ModelNames


def test_names_resolve_in_any_letter_case() -> None:
    names = ModelNames(["a", "Org/A"])
    assert [names.resolve(name) for name in ("a", "A", "org/a", "ORG/A")] == ["a"] * 4
    assert names.resolve("b") is None


def test_names_of_the_engine_come_and_go() -> None:
    names = ModelNames(["a"])
    names.learn(["a", "My-LoRA"])
    assert names.resolve("my-lora") == "My-LoRA"
    assert names.all == ("a", "My-LoRA")
    names.learn(["a"])
    assert names.resolve("my-lora") is None
