"""One step of AReaL's own PPO actor on a CPU, on the trajectories that stage 4 kept; prints what came of it as JSON.

usage: training_step.py MODEL TRAJECTORIES     a folder of Hugging Face's layout; stage4/trajectories.jsonl of a run

Run by an interpreter that has AReaL, and peft, which AReaL's FSDP engine imports.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")

import torch
import torch.distributed as dist
from areal.api import FinetuneSpec
from areal.api.cli_args import MicroBatchSpec, OptimizerConfig, PPOActorConfig
from areal.engine.fsdp_engine import FSDPPPOActor


def main() -> None:
    """A step."""
    model, file = sys.argv[1:]
    batch = [trajectory(json.loads(line)) for line in Path(file).read_text().splitlines()]
    config = PPOActorConfig(
        # flash attention, the default, is a GPU's; gloo takes NCCL's place by itself.
        path=model, backend="fsdp:d1", attn_impl="sdpa", dtype="float32", experiment_name="step", trial_name="step",
        optimizer=OptimizerConfig(type="adam", lr=1e-3, warmup_steps_proportion=0.0),
        mb_spec=MicroBatchSpec(max_tokens_per_mb=4096),
    )  # fmt: skip
    actor = FSDPPPOActor(config)
    actor.create_process_group()
    actor.initialize(None, FinetuneSpec(total_train_epochs=1, dataset_size=len(batch), train_batch_size=len(batch)))
    before = weights(actor)
    for one, logprobs in zip(batch, actor.compute_logp(batch), strict=True):
        one["prox_logp"] = logprobs
    actor.ppo_update(actor.compute_advantages(batch))
    after, stats = weights(actor), actor.export_stats()
    moved = {name: float((after[name] - tensor).abs().max()) for name, tensor in before.items()}
    print(json.dumps({"backend": dist.get_backend(), "moved": moved, "stats": stats}))
    actor.destroy()


def trajectory(told: dict[str, Any]) -> dict[str, torch.Tensor]:
    """A trajectory's tensors, as AReaL's rollout had them."""
    kinds = {name: getattr(torch, one["dtype"]) for name, one in told["tensors"].items()}
    return {name: torch.tensor(values, dtype=kinds[name]) for name, values in told["rows"].items()}


def weights(actor: Any) -> dict[str, torch.Tensor]:
    """All parameters, whole."""
    return {name: tensor.full_tensor().clone() for name, tensor in actor.model.state_dict().items()}


if __name__ == "__main__":
    main()
