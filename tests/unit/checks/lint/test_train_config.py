"""The numbers of AReaL's and verl's configurations, without either of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.checks.lint import train_config
from harness.checks.lint.train_config import TrainConfig
from harness.errors import BadConfig


def read(folder: Path, text: str) -> TrainConfig:
    path = folder / "train.yaml"
    path.write_text(text)
    return train_config.read(path)


def numbers(config: TrainConfig) -> tuple[str, int | None, int | None, int | None, int | None]:
    return config.framework, config.global_bs, config.group_size, config.rollout_dp_size, config.in_flight


def test_an_areal_configuration(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        """
        rollout: {backend: "sglang:d4p1t1", max_concurrent_rollouts: 256}
        gconfig: {n_samples: 4, max_new_tokens: 1024}
        train_dataset: {batch_size: "${a.b}"}
        a: {b: 128}
        """,
    )
    assert numbers(config) == ("areal", 128, 4, 4, 256)


@pytest.mark.parametrize(
    ("allocation", "ranks"),
    [
        ("sglang:d4p1t1+fsdp:d8", 4),
        ("vllm.d2t2+fsdp.d4", 2),
        ("sglang[rollout]:t2d12", 12),
        ("sglang:t4", None),
        ("nothing", None),
    ],
)
def test_ranks_of_an_allocation(tmp_path: Path, allocation: str, ranks: int | None) -> None:
    assert read(tmp_path, f"allocation_mode: {allocation}\n").rollout_dp_size == ranks


def test_a_verl_configuration(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        """
        data: {train_batch_size: 1024}
        actor_rollout_ref: {rollout: {n: 5, tensor_model_parallel_size: 2}}
        trainer: {n_gpus_per_node: 8, nnodes: 2}
        """,
    )
    assert numbers(config) == ("verl", 1024, 5, 8, None)


def test_our_own_names(tmp_path: Path) -> None:
    assert numbers(read(tmp_path, "global_bs: 64\ngroup_size: 2\n")) == ("plain", 64, 2, None, None)


def test_what_a_file_cannot_say_stays_open(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        """
        rollout: {max_concurrent_rollouts: "${oc.env:N}", backend: "???"}
        gconfig: {n_samples: "${a}"}
        a: "${gconfig.n_samples}"
        """,
    )
    assert numbers(config) == ("areal", None, None, None, None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1, 2]\n", "holds no mapping"),
        ("a: [\n", "is no YAML"),
        ("", "holds no mapping"),
        ("gconfig: {n_samples: many}\n", "gconfig.n_samples is 'many'"),
        ("gconfig: {n_samples: 0}\n", "not a number of at least 1"),
        ("gconfig: {n_samples: true}\n", "not a number of at least 1"),
        ("gconfig: {n_samples: 1.5}\n", "not a number of at least 1"),
        ("gconfig: {n_samples: .nan}\n", "not a number of at least 1"),
        ("gconfig: {n_samples: .inf}\n", "not a number of at least 1"),
        ("gconfig: {n_samples: {a: 1}}\n", "gconfig.n_samples is a section"),
        ("rollout: {}\n\ngconfig:\n  n_samples: 0\n", "line 4"),
        ("global_bs: !!python/object/apply:os.getcwd []\n", "not a number of at least 1"),
        ("a: " + "[" * 5000 + "\n", "CONFIG="),
        ("#" * 2_000_000, "that is no training configuration"),
    ],
)
def test_what_cannot_be_used_is_told(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(BadConfig) as caught:
        read(tmp_path, text)
    assert words in caught.value.what
    assert caught.value.exit_code == 2


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"no file CONFIG=nothing\.yaml"):
        train_config.find("nothing.yaml", [tmp_path])
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadConfig, match="is no text"):
        train_config.read(train_config.find("x.yaml", [tmp_path]))


def test_a_file_of_nested_aliases_costs_what_it_costs_to_read(tmp_path: Path) -> None:
    levels = ["l0: &l0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 30)]
    assert read(tmp_path, "\n".join([*levels, "global_bs: 64"])).global_bs == 64
    with pytest.raises(BadConfig, match="group_size is a section"):
        read(tmp_path, "\n".join([*levels, "group_size: *l29"]))
