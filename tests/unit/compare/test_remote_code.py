"""Code that lies beside weights is never run, and nobody is asked whether it may."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from harness.compare.driver.text import source

CLONE = Path(__file__).parents[3]


@pytest.mark.parametrize("path", ["/models/x", "org/name", "/models/x.gguf"])
def test_code_beside_the_weights_is_refused_without_asking(path: str) -> None:
    # Left out, transformers asks on standard input, and takes what comes there for the answer.
    assert source(path)["trust_remote_code"] is False


def test_whoever_loads_a_model_says_so() -> None:
    calls = 0
    for file in (CLONE / "harness").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not (isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".from_pretrained")):
                continue
            unpacked = [ast.unparse(keyword.value) for keyword in node.keywords if keyword.arg is None]
            named = [keyword.arg for keyword in node.keywords]
            assert "trust_remote_code" in named or any("source" in one for one in unpacked), f"{file}:{node.lineno}"
            calls += 1
    assert calls >= 4
