"""What a verl configuration alone says will go wrong. Defaults and assertions as in verl 0.9.1.

Most of verl's files are put together from its own defaults, and its scripts set the rest on the command line. So
rules look at what a file says, and take a default only where it says nothing about a whole that it otherwise gives.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checks.lint.config import Config
from harness.checks.lint.rule import Hit, Rule

_ROLLOUT = "actor_rollout_ref.rollout"
_ACTOR = "actor_rollout_ref.actor"


def _int(config: Config, path: str, default: int | None = None) -> int | None:
    """A number of the file, or verl's own default where the file says nothing."""
    entry = config.get(path)
    if not entry.given:
        return default
    return int(entry.number) if entry.number is not None else None


def _train_gpus(config: Config) -> int | None:
    each, nodes = _int(config, "trainer.n_gpus_per_node"), _int(config, "trainer.nnodes", 1)
    return each * nodes if each and nodes else None


def _batch(config: Config) -> Iterator[Hit]:
    """The assertions of verl's own validate_config, without having to start Ray for them."""
    if config.section("async_training"):
        return
    batch, n = _int(config, "data.train_batch_size"), _int(config, f"{_ROLLOUT}.n", 1)
    mini, gpus = _int(config, f"{_ACTOR}.ppo_mini_batch_size"), _train_gpus(config)
    if batch is None or config.get(f"{_ACTOR}.use_dynamic_bsz").value is True:
        return
    if mini is not None and batch < mini:
        yield config.hit("data.train_batch_size", f"train_batch_size {batch} is less than ppo_mini_batch_size {mini}")
    megatron = config.get(f"{_ACTOR}.strategy").text == "megatron"
    if n is not None and gpus and not megatron and batch * n % gpus:
        yield config.hit("data.train_batch_size", f"train_batch_size × n = {batch} × {n} doesn't divide by {gpus} GPUs")


def _replicas(config: Config) -> Iterator[Hit]:
    tensor, data = (
        _int(config, f"{_ROLLOUT}.tensor_model_parallel_size", 2),
        _int(config, f"{_ROLLOUT}.data_parallel_size", 1),
    )
    if config.section(f"{_ROLLOUT}.disaggregation") or tensor is None or data is None:
        return
    own = _int(config, "rollout.n_gpus_per_node")
    gpus = own * (_int(config, "rollout.nnodes", 1) or 1) if own else _train_gpus(config)
    each = tensor * data
    if not gpus:
        return
    path = f"{_ROLLOUT}.tensor_model_parallel_size"
    default = "" if config.get(path).given else " (tensor_model_parallel_size is 2 by default)"
    if each > gpus:
        yield config.hit(path, f"one engine takes {each} GPUs{default}, and there are {gpus}: no engine is started")
    elif gpus % each:
        yield config.hit(
            path, f"engines take {each} GPUs each{default}: {gpus % each} of {gpus} are left without one", "warn"
        )


def _staleness(config: Config) -> Iterator[Hit]:
    if not config.section("async_training"):
        return
    base = "async_training"
    threshold, sync = config.get(f"{base}.staleness_threshold"), config.get(f"{base}.trigger_parameter_sync_step")
    for path, value in (("data.train_batch_size", 0), ("data.gen_batch_size", 1)):
        entry = config.get(path)
        if entry.given and entry.number is not None and entry.number != value:
            yield config.hit(path, f"{path} is {entry.number:g}, and must be {value} for fully asynchronous training")
    if threshold.number is not None and threshold.number < 0:
        yield config.hit(f"{base}.staleness_threshold", f"staleness_threshold is {threshold.number:g}")
    if sync.number is not None and sync.number < 1:
        yield config.hit(f"{base}.trigger_parameter_sync_step", f"trigger_parameter_sync_step is {sync.number:g}")
    if config.get("actor_rollout_ref.hybrid_engine").value is True:
        yield config.hit("actor_rollout_ref.hybrid_engine", "hybrid_engine is true")
    if config.get(f"{_ROLLOUT}.calculate_log_probs").value is False:
        yield config.hit(f"{_ROLLOUT}.calculate_log_probs", "calculate_log_probs is false")


def _mode(config: Config) -> Iterator[Hit]:
    if config.get(f"{_ROLLOUT}.mode").text == "sync":
        yield config.hit(f"{_ROLLOUT}.mode", "rollout.mode=sync")


def _tokenizer(config: Config) -> Iterator[Hit]:
    tokenizer = config.get("actor_rollout_ref.model.tokenizer_path")
    mine, model = tokenizer.text, config.get("actor_rollout_ref.model.path").text
    if tokenizer.given and mine and model and mine != model:
        yield config.hit(
            "actor_rollout_ref.model.tokenizer_path", f"tokenizer {mine} is not the one of the model {model}"
        )


def _sampling(config: Config) -> Iterator[Hit]:
    temperature = config.get(f"{_ROLLOUT}.temperature")
    if config.get(f"{_ROLLOUT}.do_sample").value is False:
        yield config.hit(f"{_ROLLOUT}.do_sample", "rollout.do_sample=false")
    elif temperature.number is not None and temperature.number <= 0.01:
        yield config.hit(f"{_ROLLOUT}.temperature", f"rollout.temperature={temperature.number:g}")


def _top_p(config: Config) -> Iterator[Hit]:
    top_p, top_k = config.get(f"{_ROLLOUT}.top_p"), config.get(f"{_ROLLOUT}.top_k")
    if top_p.number is not None and top_p.number < 1:
        yield config.hit(f"{_ROLLOUT}.top_p", f"rollout.top_p={top_p.number:g}")
    elif top_k.number is not None and top_k.number > 0:
        yield config.hit(f"{_ROLLOUT}.top_k", f"rollout.top_k={top_k.number:g}")


def _group(config: Config) -> Iterator[Hit]:
    estimator = config.get("algorithm.adv_estimator").text
    n = config.get(f"{_ROLLOUT}.n")
    if estimator == "grpo" and n.number == 1:
        yield config.hit(f"{_ROLLOUT}.n", "rollout.n is 1, and adv_estimator is grpo")


def _nccl(config: Config) -> Iterator[Hit]:
    timeout = config.get("actor_rollout_ref.nccl_timeout")
    if timeout.number is not None and timeout.number < 60:
        yield config.hit("actor_rollout_ref.nccl_timeout", f"nccl_timeout is {timeout.number:g} s")


RULES = (
    Rule(
        "verl-batch",
        "batch size and GPUs",
        "fail",
        "verl checks it only after Ray and its workers have been asked for, and stops.",
        "make train_batch_size × rollout.n a multiple of all GPUs, and no less than ppo_mini_batch_size",
        _batch,
    ),
    Rule(
        "verl-replicas",
        "engines and GPUs",
        "fail",
        "verl starts (GPUs ÷ those of one engine) engines, rounded down: where that is 0, rollouts have no engine.",
        "rollout.tensor_model_parallel_size: a divisor of all GPUs",
        _replicas,
    ),
    Rule(
        "verl-async",
        "fully asynchronous training",
        "fail",
        "verl's rollouter asserts it when it starts, in an actor's log.",
        "data.train_batch_size: 0, gen_batch_size: 1, hybrid_engine: false, calculate_log_probs: true, "
        "staleness_threshold ≥ 0, trigger_parameter_sync_step ≥ 1",
        _staleness,
    ),
    Rule(
        "verl-mode-sync",
        "rollout mode",
        "fail",
        "Mode sync has been removed; verl raises a ValueError.",
        "rollout.mode: async, or leave it out",
        _mode,
    ),
    Rule(
        "verl-tokenizer",
        "tokenizer",
        "warn",
        "Where the two tokenizers differ, the tokens that are trained on are not those that were generated.",
        "leave model.tokenizer_path out; it is the model's then",
        _tokenizer,
    ),
    Rule(
        "verl-greedy",
        "answers are sampled",
        "warn",
        "All answers of a group are the same and get the same reward: GRPO learns nothing from such a group.",
        "rollout.temperature: 1.0; val_kwargs has its own",
        _sampling,
    ),
    Rule(
        "verl-top-p",
        "sampled from all tokens",
        "warn",
        "The engine's log-probs are over the tokens that are left (logprobs_mode processed_logprobs), the trainer's "
        "over all of them.",
        "rollout.top_p: 1 and top_k: -1",
        _top_p,
    ),
    Rule(
        "verl-group-of-one",
        "answers in a group",
        "warn",
        "With one answer there is no group to compare it with: GRPO becomes a policy gradient without a baseline.",
        "rollout.n: 8",
        _group,
    ),
    Rule(
        "verl-nccl-timeout",
        "time-outs",
        "warn",
        "Loading a model or a first compilation takes longer, and the other ranks give up waiting for it.",
        "nccl_timeout: 600   # the default",
        _nccl,
    ),
)
