"""Reading a configuration that nobody vouches for."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.checks.lint import config
from harness.checks.lint.run import of_config
from harness.errors import BadConfig

HEAD = "experiment_name: x\n"


def read(folder: Path, text: str) -> config.Config:
    (folder / "c.yaml").write_text(text)
    return config.read(folder / "c.yaml")


def test_values_are_followed_and_know_their_lines(tmp_path: Path) -> None:
    text = HEAD + "train_dataset:\n  batch_size: 4\nrollout:\n  a: ${train_dataset.batch_size}\n  b: ${.a}\n"
    text += "  c: ${oc.env:NO_SUCH_VARIABLE,7}\n  d: ${nothing.there}\n  e: x${.a}\n  f: ???\n"
    found = read(tmp_path, text)
    assert [found.get(f"rollout.{name}").value for name in "abc"] == [4, 4, 7]
    assert all(found.get(f"rollout.{name}").value is config.UNKNOWN for name in "def")
    assert found.get("rollout.b").line == 6
    assert found.get("rollout.z", 3).value == 3


def test_circles_and_bombs_cost_nothing(tmp_path: Path) -> None:
    layers = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    text = HEAD + "a0: &a0 [x, x]\n" + layers + "rollout:\n  a: ${.b}\n  b: ${.a}\n  backend: sglang:d1\n"
    found = read(tmp_path, text)
    assert found.get("rollout.a").value is config.UNKNOWN
    assert [finding.id for finding in of_config(found)] == ["lint.config"]


def test_tags_construct_nothing(tmp_path: Path) -> None:
    found = read(tmp_path, HEAD + "rollout:\n  a: !!python/object/apply:os.system ['touch pwned']\n")
    assert of_config(found)
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [\n", "line 2 is no YAML"),
        ("- a\n", "holds no mapping"),
        ("a: 1\n", "neither AReaL's nor verl's"),
        ("a: " + "[" * 3000, "nested too deeply"),
        ("a: 1\n---\nb: 1\n", "is no YAML"),
    ],
)
def test_what_is_none_is_told_in_a_sentence(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(BadConfig, match=words):
        read(tmp_path, text)


def test_a_comment_takes_a_rule_out(tmp_path: Path) -> None:
    text = HEAD + "gconfig:\n  top_p: 0.9  # drydock: ignore[areal-top-p]\nrollout:\n  backend: sglang:d1\n"
    assert [finding.id for finding in of_config(read(tmp_path, text))] == ["lint.config"]


def test_a_key_is_not_shown(tmp_path: Path) -> None:
    text = HEAD + "rollout:\n  tokenizer_path: x\n  agent:\n    mode: inline\n    admin_api_key: areal-admin-key\n"
    (_, finding) = of_config(read(tmp_path, text))
    assert finding.place is not None
    assert finding.place.source == "admin_api_key: [redacted]"
