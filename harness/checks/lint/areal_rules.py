"""What an AReaL configuration alone says will go wrong. Defaults and formulas as in areal 1.0.4."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.checks.lint.config import UNKNOWN, Config
from harness.checks.lint.rule import Hit, Rule

DEFAULT_KEY = "areal-admin-key"
_SPEC = re.compile(r"^(\w+)(?:\[\w+\])?[:.]((?:[dtpce]\d+)+)$")
# As AReaL 1.0.4 parses it: an engine, perhaps a name, a colon, and sizes from 1 on.
_ROLLOUT_SPEC = re.compile(r"^(?:sglang|vllm)(?:\[\w+\])?:(?:[dtp][1-9]\d*)+$")
ENGINES = ("sglang", "vllm")


def _int(config: Config, path: str, default: int | None = None) -> int | None:
    number = config.get(path, default).number
    return int(number) if number is not None else None


def _has_agent(config: Config) -> bool:
    return config.section("rollout.agent") or config.section("rollout.openai")


def _staleness(config: Config) -> Iterator[Hit]:
    """The one number that everything waits for.

    At version v, (off + v + 1) × consumer batch rollouts are let in, and (v + 1) × batch are waited for.
    """
    if not config.section("rollout"):
        return  # nothing is rolled out: supervised training
    batch = _int(config, "train_dataset.batch_size")
    consumer = _int(config, "rollout.consumer_batch_size", 1)
    off = _int(config, "rollout.max_head_offpolicyness", 0)
    if batch is None or consumer is None or off is None or config.get("dynamic_bs", False).value not in (False, None):
        return
    consumer = max(1, consumer)
    if consumer >= batch:
        return
    step = off * consumer // (batch - consumer) + 1
    let_in = (off + step) * consumer
    where = "rollout.consumer_batch_size" if config.get("rollout.consumer_batch_size").given else "rollout"
    yield config.hit(
        where,
        f"step {step} waits for ever: it needs {step * batch} rollouts (batch size {batch}), and {let_in} are let in "
        f"(consumer_batch_size {consumer}, max_head_offpolicyness {off})",
    )


def _queue(config: Config) -> Iterator[Hit]:
    if not config.section("rollout"):
        return
    batch = _int(config, "train_dataset.batch_size")
    concurrent = _int(config, "rollout.max_concurrent_rollouts") or _int(config, "rollout.consumer_batch_size", 1)
    given = config.get("rollout.max_concurrent_rollouts").value
    size = _int(config, "rollout.queue_size") or (concurrent * 16 if concurrent and given is not UNKNOWN else None)
    if batch is None or size is None or config.get("rollout.queue_size").value is UNKNOWN or size >= batch:
        return
    where = "rollout.queue_size" if config.get("rollout.queue_size").given else "rollout.max_concurrent_rollouts"
    yield config.hit(where, f"the queue takes {size} rollouts, and the batch size is {batch}")


def _concurrency(config: Config) -> Iterator[Hit]:
    if not config.section("rollout"):
        return
    batch = _int(config, "train_dataset.batch_size")
    given = config.get("rollout.max_concurrent_rollouts")
    consumer = _int(config, "rollout.consumer_batch_size", 1)
    concurrent = int(given.number) if given.number is not None else consumer if given.value is None else None
    if batch is None or not concurrent or concurrent * 4 > batch:
        return
    default = "" if given.number is not None else " (it defaults to consumer_batch_size)"
    yield config.hit(
        "rollout.max_concurrent_rollouts", f"max_concurrent_rollouts is {concurrent}{default}, the batch size {batch}"
    )


def _timeouts(config: Config) -> Iterator[Hit]:
    request, setup = config.get("rollout.request_timeout"), config.get("rollout.setup_timeout")
    if request.number is not None and request.number > 3600:
        yield config.hit("rollout.request_timeout", f"request_timeout is {request.number:g} s")
    if setup.given and setup.number is not None and setup.number < 60:
        yield config.hit(
            "rollout.setup_timeout", f"setup_timeout is {setup.number:g} s: an engine may take longer to load its model"
        )


def _spec(config: Config, role: str) -> tuple[str, dict[str, int]] | None:
    text = config.get(f"{role}.backend").text
    found = _SPEC.match(text.strip()) if text else None
    if found is None:
        return None
    return found[1], {kind: int(size) for kind, size in re.findall(r"([dtpce])(\d+)", found[2])}


def _gpus(config: Config, role: str) -> int | None:
    spec = _spec(config, role)
    if spec is None:
        return None
    # Experts share the ranks of the others.
    sizes = [size for kind, size in spec[1].items() if kind in "dtpc"]
    total = 1
    for size in sizes:
        total *= size
    return total


def _dp_size(config: Config) -> Iterator[Hit]:
    text = config.get("rollout.backend").text
    if text and "${" not in text:
        if "+" in text:
            yield config.hit("rollout.backend", f"{text} names several components; a backend is one")
            return
        if re.fullmatch(r"(?:[dtpce]\d+)+", text.strip()):
            yield config.hit("rollout.backend", f"{text} doesn't say which engine: sglang:{text} or vllm:{text}")
            return
        engine = re.split(r"[:.\[]", text.strip(), maxsplit=1)[0]
        if engine not in ENGINES:
            yield config.hit(
                "rollout.backend", f"{text}: AReaL rolls out with {' or '.join(ENGINES)}, not with {engine}"
            )
            return
        if not _ROLLOUT_SPEC.match(text.strip()):
            yield config.hit(
                "rollout.backend", f"AReaL can't read {text}: {engine}:d1 is one server, {engine}:d4t2 four of two GPUs"
            )
            return
    nodes, each = _int(config, "cluster.n_nodes"), _int(config, "cluster.n_gpus_per_node")
    rollout, actor = _gpus(config, "rollout"), _gpus(config, "actor")
    if nodes is None or each is None or rollout is None:
        return
    there = nodes * each
    if not there or config.get("enable_offload", False).value is not False:
        return
    # Roles that share GPUs take no more than the larger of them.
    shared = any(name == "type" and "coloc" in str(one.value).lower() for name, one in config.everything())
    needed = max(rollout, actor or 0) if shared else rollout + (actor or 0)
    if needed > there:
        both = f"{rollout} for rollout" + (f" and {actor} for actor" if actor else "")
        detail = f"{both} GPUs are asked for, and the cluster has {there}"
        # The command line may say more than the file does.
        yield config.hit("rollout.backend", detail, "warn")


def _tokenizer(config: Config) -> Iterator[Hit]:
    tokenizer = config.get("rollout.tokenizer_path", "")
    if _has_agent(config) and tokenizer.value in ("", None):
        yield config.hit("rollout.tokenizer_path", "rollout.tokenizer_path is not set, and there is an agent")
        return
    mine, actor = tokenizer.text, config.get("actor.path").text
    if tokenizer.given and mine and actor and mine != actor:
        yield config.hit(
            "rollout.tokenizer_path", f"tokenizer {mine} is not the one of the actor's model {actor}", "warn"
        )


def _admin_key(config: Config) -> Iterator[Hit]:
    if not _has_agent(config):
        return
    second = config.get("rollout._version", "v1").text == "v2"
    path = "rollout.admin_api_key" if second else "rollout.agent.admin_api_key"
    key = config.get(path, DEFAULT_KEY)
    allowed = any(
        name == "AREAL_ALLOW_DEFAULT_ADMIN_KEY" and one.value in (1, "1") for name, one in config.everything()
    )
    if key.value == DEFAULT_KEY and not allowed:
        yield config.hit(path, f"{path} is " + ("the default" if key.given else "not set, which means the default"))
    elif key.given and isinstance(key.value, str) and not key.value.strip():
        yield config.hit(path, f"{path} is empty")


def _ray(config: Config) -> Iterator[Hit]:
    if _has_agent(config) and config.get("scheduler.type").text == "ray":
        yield config.hit("scheduler.type", "scheduler.type=ray, and there is an agent")


def _sampling(config: Config) -> Iterator[Hit]:
    temperature, greedy = config.get("gconfig.temperature", 1.0), config.get("gconfig.greedy", False)
    if greedy.value is True:
        yield config.hit("gconfig.greedy", "gconfig.greedy=true")
    elif temperature.number is not None and temperature.number <= 0.01:
        yield config.hit("gconfig.temperature", f"gconfig.temperature={temperature.number:g}")


def _top_p(config: Config) -> Iterator[Hit]:
    top_p, top_k = config.get("gconfig.top_p", 1.0), config.get("gconfig.top_k")
    if top_p.number is not None and top_p.number < 1:
        yield config.hit("gconfig.top_p", f"gconfig.top_p={top_p.number:g}")
    elif top_k.number is not None and 0 < top_k.number < 1000:
        yield config.hit("gconfig.top_k", f"gconfig.top_k={top_k.number:g}")


def _group(config: Config) -> Iterator[Hit]:
    norm = "actor.reward_norm"
    alone = _int(config, "gconfig.n_samples", 1) == 1 and _int(config, f"{norm}.group_size", 1) == 1
    if alone and config.get(f"{norm}.mean_level").text == "group":
        yield config.hit("gconfig.n_samples", f"gconfig.n_samples is 1, and {norm}.mean_level is group")


def nccl_timeout(config: Config) -> Iterator[Hit]:
    """An environment variable that nothing reads."""
    for name, entry in config.everything():
        if name == "NCCL_TIMEOUT":
            source = config.lines[entry.line - 1].strip()
            yield Hit("NCCL_TIMEOUT is set", config.path, entry.line, entry.line, "", source)
            return


RULES = (
    Rule(
        "areal-staleness",
        "staleness and batch size",
        "fail",
        "Rollouts beyond (max_head_offpolicyness + version + 1) × consumer_batch_size are not let in, and the version "
        "only rises when the batch is whole: everything waits, without an error.",
        "consumer_batch_size: ${train_dataset.batch_size}   # in rollout:",
        _staleness,
    ),
    Rule(
        "areal-queue-size",
        "queue and batch size",
        "fail",
        "AReaL refuses it when the first batch is asked for, after the engines have been started.",
        "raise rollout.max_concurrent_rollouts (the queue has 16 times that), or set rollout.queue_size",
        _queue,
    ),
    Rule(
        "areal-concurrency",
        "rollouts at once",
        "warn",
        "A batch is collected in rounds of that many rollouts, and the engine idles between them.",
        "max_concurrent_rollouts: a small multiple of the batch size   # in rollout:",
        _concurrency,
    ),
    Rule(
        "areal-timeouts",
        "time-outs",
        "warn",
        "Only a time-out ends the waiting for a call that hangs (an hour by default) and for an engine that died when "
        "it started (300 s); one that is too short gives up on an engine that still loads its model.",
        "request_timeout: 60 and setup_timeout: 120 while debugging   # in rollout:",
        _timeouts,
    ),
    Rule(
        "areal-dp-size",
        "engines and GPUs",
        "fail",
        "The scheduler can't place the workers, or AReaL refuses the text when it starts.",
        "rollout.backend: sglang:d4t1 is 4 servers with 1 GPU each; when attaching, d server_infos",
        _dp_size,
    ),
    Rule(
        "areal-tokenizer",
        "tokenizer",
        "fail",
        "The proxy that an agent's calls go through turns text into tokens with rollout.tokenizer_path. Without one it "
        "doesn't start; with another model's, the tokens that are trained on are not those that were generated.",
        "tokenizer_path: ${actor.path}   # in rollout:",
        _tokenizer,
    ),
    Rule(
        "areal-admin-key",
        "proxy's admin key",
        "warn",
        "With the key that everybody knows, the proxy of an agent refuses to start on an address that others reach; "
        "where it starts, whoever reaches it is its administrator.",
        "admin_api_key: ${oc.env:AREAL_ADMIN_KEY}   # in rollout.agent:, or AREAL_ALLOW_DEFAULT_ADMIN_KEY=1 in the "
        "environment",
        _admin_key,
    ),
    Rule(
        "areal-ray-agent",
        "scheduler for an agent",
        "fail",
        "“Proxy workers not supported with RayScheduler”: agents run with the local and the Slurm scheduler only.",
        "scheduler.type: local, or slurm",
        _ray,
    ),
    Rule(
        "areal-greedy",
        "answers are sampled",
        "warn",
        "All runs of a group get the same answer and the same reward: GRPO learns nothing from such a group.",
        "gconfig.temperature: 1.0 and greedy: false; eval_gconfig has its own",
        _sampling,
    ),
    Rule(
        "areal-top-p",
        "sampled from all tokens",
        "warn",
        "The engine renormalises its log-probs over the tokens that are left; the trainer's are over all of them.",
        "leave gconfig.top_p at 1.0 and top_k out",
        _top_p,
    ),
    Rule(
        "areal-group-of-one",
        "runs in a group",
        "warn",
        "A group of one is its own mean: every advantage is 0, and nothing is learned.",
        "gconfig.n_samples: 8",
        _group,
    ),
    Rule(
        "areal-nccl-timeout",
        "NCCL_TIMEOUT",
        "warn",
        "Nothing reads it: AReaL gives every process group 7200 s of its own.",
        "TORCH_NCCL_DUMP_ON_TIMEOUT and TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC are real",
        nccl_timeout,
    ),
)
