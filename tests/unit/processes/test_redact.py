"""Secrets in command lines."""

from __future__ import annotations

import pytest

from harness.processes.redact import redact_command, secret_values


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("train.py --api-key abc123", "train.py --api-key [redacted]"),
        ("train.py --api-key=abc123 --lr 1", "train.py --api-key=[redacted] --lr 1"),
        ("train.py --hub_token 'a b c' -v", "train.py --hub_token [redacted] -v"),
        ('train.py --password="x y"', "train.py --password=[redacted]"),
        ("HF_TOKEN=hf_abc python train.py", "HF_TOKEN=[redacted] python train.py"),
        ("env WANDB_API_KEY=1234 OTHER=5 python", "env WANDB_API_KEY=[redacted] OTHER=5 python"),
        ("curl http://me:pass@host/x", "curl http://me:[redacted]@host/x"),
    ],
)
def test_what_stands_where_secrets_stand_is_hidden(command: str, kept: str) -> None:
    assert redact_command(command) == kept


@pytest.mark.parametrize(
    "command",
    [
        "train.py --max-tokens 512 --key-frames 3",
        "train.py --tokenizer Qwen/Qwen2.5-0.5B",
        "python -c 'print(1)' --seed 3",
        "curl http://localhost:8080/v1",
        "torchrun --nproc-per-node 2 train.py trainer.n=1",
    ],
)
def test_what_only_sounds_like_it_stays(command: str) -> None:
    assert redact_command(command) == command


def test_secret_values_are_found_by_the_variables_name() -> None:
    environ = {
        "HF_TOKEN": "hf_something",
        "WANDB_API_KEY": "0123456789",
        "DB_PASSWORD": "hunter22",
        "API_KEY": "x",  # too short to be told from an ordinary word
        "PATH": "/usr/bin:/bin",
        "TOKENIZERS_PARALLELISM": "false-value",
    }
    assert secret_values(environ) == ["hf_something", "0123456789", "hunter22"]
