"""Real tensors as the debugger shows them: what they are without a look at their numbers, and their numbers."""

from __future__ import annotations

import json
import subprocess

import pytest

from harness.breakpoints.inside import values
from tests.support.torch_python import torch_python

EVALUATE = """
import json, runpy, sys
import torch

class Tokenizer:
    def decode(self, ids):
        return " ".join(f"<{number}>" for number in ids)

class Rollout:
    def __init__(self):
        self.tokenizer = Tokenizer()

nan, inf = float("nan"), float("inf")
names = {
    "values": torch.tensor([1.0, nan, inf, -2.0, 3.0]), "logits": torch.linspace(-1, 1, 1600).reshape(2, 800),
    "half": torch.full((3,), 0.5, dtype=torch.bfloat16), "mask": torch.tensor([True, False, True, True]),
    "loss": torch.tensor(3.5), "weights": torch.nn.Parameter(torch.zeros(2, 2)), "none": torch.empty(0),
    "ids": torch.tensor([[1, 2], [3, 4]]), "self": Rollout(), "batch": {"ids": torch.ones(2, 3, dtype=torch.int64)},
    "far": torch.empty(4, 2, device="meta"), "one_far": torch.empty((), device="meta"),
}
helper = runpy.run_path(sys.argv[1])
asked = json.load(sys.stdin)
print(json.dumps([helper["evaluate"](text, {}, names, how) for text, how in asked]))
"""


@pytest.fixture(scope="module")
def evaluated() -> dict[str, str]:
    """Expression to text, all of them evaluated in one process that has PyTorch."""
    asked = [*((name, "show") for name in SHOWN), *((name, "stats") for name in STATS), ("decode(ids)", "text")]
    done = subprocess.run(
        [torch_python(), "-c", EVALUATE, values.__file__], input=json.dumps(asked), capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {f"{how} {name}": text for (name, how), text in zip(asked, json.loads(done.stdout), strict=True)}


SHOWN = {
    "values": "Tensor (5,) float32 cpu",
    "half": "Tensor (3,) bfloat16 cpu",
    "weights": "Parameter (2, 2) float32 cpu requires_grad",
    "loss": "tensor(3.5000)",
    "batch": "{'ids': Tensor (2, 3) int64 cpu}",
    # Nothing can be fetched from there, so this would fail if anything were.
    "far": "Tensor (4, 2) float32 meta",
    "one_far": "Tensor () float32 meta",
}
STATS = {
    "values": ["min -2  mean 0.666667  max 3", "NaN 1  Inf 1", "-2 |"],
    "logits": ["min -1", "max 1  no NaN, no Inf", "|████████████████|"],
    "half": ["min 0.5  mean 0.5  max 0.5"],
    "mask": ["min 0  mean 0.75  max 1"],
    "loss": ["min 3.5  mean 3.5  max 3.5"],
    "weights": ["requires_grad", "min 0"],
    "none": ["no numbers"],
    "ids": ["min 1  mean 2.5  max 4"],
}


@pytest.mark.parametrize("name", SHOWN)
def test_what_it_is(evaluated: dict[str, str], name: str) -> None:
    assert evaluated[f"show {name}"] == SHOWN[name]


@pytest.mark.parametrize("name", STATS)
def test_its_numbers(evaluated: dict[str, str], name: str) -> None:
    for part in STATS[name]:
        assert part in evaluated[f"stats {name}"]


def test_token_ids_as_the_run_s_tokenizer_reads_them(evaluated: dict[str, str]) -> None:
    assert evaluated["text decode(ids)"] == "'<1> <2>'\n'<3> <4>'"
