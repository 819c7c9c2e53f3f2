"""Runs verl's real agent loops once; a program of its own, run by an interpreter that has verl.

``verl_driver.py JOB EVENTS CONTROL``, as the driver for AReaL beside it: a JSON file that says what to do, and two open
descriptors. A Ray of its own is started, verl's manager makes its workers and reward workers in it, and each prompt of
the batch goes through a worker as one group of runs: in verl, too, a whole group is lost where one run of it fails.

Imports nothing of ours but what lies in ``inside``.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
import traceback
from typing import Any

# Not this script's folder, whose modules have common names, and which Ray would hand on to its workers.
_HERE = os.path.dirname(os.path.realpath(__file__))
_INSIDE = os.path.join(_HERE, "inside")
sys.path[:] = [_INSIDE, *(folder for folder in sys.path if os.path.realpath(folder or ".") != _HERE)]

from drydock_channel import Channel, numbers, template_of  # noqa: E402

LOOP = "drydock_check"
# Ray's own default takes a third of the memory for objects; a batch of texts is small.
OBJECT_STORE = 256 * 1024 * 1024
LEAVE_SECONDS = 15.0
RAY_STARTS = 3


def main() -> None:
    """Do one job."""
    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    channel = Channel(int(sys.argv[2]), int(sys.argv[3]), job["folder"])
    os.environ["PYTHONPATH"] = os.pathsep.join([*job["path"], *filter(None, [os.environ.get("PYTHONPATH", "")])])
    phase = "import"
    try:
        channel.say("phase", name=phase)
        channel.say("versions", **_import())
        phase = "config"
        channel.say("phase", name=phase)
        config, told = read_config(job)
        channel.say("config", **told)
        phase = "workers"
        channel.say("phase", name=phase)
        manager, tokenizer = _workers(job, config)
        if job["work"]["kind"] == "agent":
            phase = "proxy"
            channel.say("phase", name=phase)
            _lead_agents(channel, manager)
        phase = "rollout"
        channel.say("phase", name=phase, work=0)
        _roll_out(channel, job, config, manager, tokenizer)
        phase = "template"
        channel.say("template", **template_of(tokenizer))
    except BaseException as error:  # noqa: BLE001  # whatever it is, whoever asked is told
        channel.say("failed", phase=phase, type=type(error).__name__, text=str(error), traceback=traceback.format_exc())
    channel.say("phase", name="end")
    _leave(channel)
    channel.say("done")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _import() -> dict[str, str]:
    from importlib import metadata

    import verl  # noqa: F401
    from verl.experimental.agent_loop import AgentLoopManager  # noqa: F401
    from verl.experimental.reward_loop import RewardLoopManager  # noqa: F401

    found = {}
    for name in ("verl", "torch", "transformers", "ray", "tensordict", "openai"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def read_config(job: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The training's configuration put together as Hydra does it for a training, and what was put in for the check.

    A file with ``defaults`` is composed; one without is what a script would set, on top of verl's own defaults.
    """
    from hydra import compose, initialize_config_dir, initialize_config_module
    from omegaconf import OmegaConf, open_dict

    path = job["config"]
    own = OmegaConf.load(path)
    if "defaults" in own:
        places = [*(OmegaConf.select(own, "hydra.searchpath") or []), "pkg://verl.trainer.config"]
        with initialize_config_dir(os.path.dirname(path), version_base=None):
            config = compose(
                os.path.splitext(os.path.basename(path))[0], overrides=[f"hydra.searchpath=[{','.join(places)}]"]
            )
    else:
        with initialize_config_module("verl.trainer.config", version_base=None):
            config = compose("ppo_trainer")
        OmegaConf.set_struct(config, False)
        config = OmegaConf.merge(config, own)
    OmegaConf.set_struct(config, False)
    changed: dict[str, Any] = {}
    for name, value in job["set"].items():
        before = OmegaConf.select(config, name, throw_on_missing=False)
        if before != value:
            OmegaConf.update(config, name, value, force_add=True)
            changed[name] = {"was": _told(before), "is": _told(value)}
    if OmegaConf.is_missing(config.actor_rollout_ref.rollout, "name"):
        config.actor_rollout_ref.rollout.name = "vllm"
    rollout = config.actor_rollout_ref.rollout
    if job["work"]["kind"] == "agent":
        file = os.path.join(job["folder"], "agent_loop.yaml")
        target = {"name": LOOP, "_target_": "drydock_verl_parts.ObservedLoop", "agent": job["work"]["agent"]}
        OmegaConf.save(OmegaConf.create([target]), file)
        with open_dict(config):
            rollout.agent.agent_loop_config_path = file
            rollout.agent.default_agent_loop = LOOP
    else:
        _observe_reward(job, config)
    return config, {
        "changed": changed,
        "engine": rollout.name,
        "loop": rollout.agent.default_agent_loop,
        "response_length": rollout.response_length,
        "prompt_length": rollout.prompt_length,
        "reward_manager": config.reward.reward_manager.name,
        "temperature": rollout.temperature,
        "model": str(config.actor_rollout_ref.model.path),
        "use_v1": bool(config.trainer.get("use_v1", True)),
    }


def _observe_reward(job: dict[str, Any], config: Any) -> None:
    """Put the function that notes what the reward function returns in its place."""
    from drydock_verl_parts import is_async

    own = config.reward.custom_reward_function
    work = job["work"]
    if not own.path:
        return  # verl's own scores, by the samples' data_source
    told = {"file": os.path.abspath(own.path), "name": own.name, "notes": work["notes"], "rewards": work["rewards"]}
    asynchronous = is_async(told)
    own.path = os.path.join(_INSIDE, "drydock_verl_parts.py")
    own.name = "score_async" if asynchronous else "score"
    own.reward_kwargs = {**(own.get("reward_kwargs") or {}), "drydock": told}


def _told(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _workers(job: dict[str, Any], config: Any) -> tuple[Any, Any]:
    """A Ray of our own, the server's stand-in, verl's reward workers and verl's agent loop workers in it."""
    import ray
    from drydock_verl_parts import Server, manager_class
    from omegaconf import OmegaConf
    from verl.experimental.reward_loop import RewardLoopManager
    from verl.utils import hf_tokenizer
    from verl.utils.fs import copy_to_local
    from verl.workers.rollout.llm_server import LLMServerClient
    from verl.workers.rollout.router import GlobalRequestLoadBalancer

    _start_ray(job["folder"])
    OmegaConf.resolve(config)
    rollout = config.actor_rollout_ref.rollout
    lengths = {name: rollout[name] for name in ("prompt_length", "response_length", "ignore_eos")}
    server = (
        ray.remote(Server)
        .options(num_cpus=0, max_concurrency=1000)
        .remote(job["server"]["address"], job["model"], job["server"]["generate"], lengths, job["answer_seconds"])
    )
    balancer = ray.remote(GlobalRequestLoadBalancer).options(num_cpus=0).remote({"drydock": server})
    client = LLMServerClient(config, load_balancer_handle=balancer)
    reward = RewardLoopManager(config) if job["work"]["kind"] == "loop" else None
    manager = manager_class().create(
        config=config,
        llm_client=client,
        reward_loop_worker_handles=reward.reward_loop_worker_handles if reward else None,
    )
    model = config.actor_rollout_ref.model
    path = copy_to_local(model.tokenizer_path or model.path)
    tokenizer = hf_tokenizer(path, trust_remote_code=bool(model.get("trust_remote_code")))
    # An actor that can't be made says so with the first call to it.
    ray.get([worker.gate.remote() for worker in manager.agent_loop_workers])
    if reward:
        ray.get([worker.__ray_ready__.remote() for worker in reward.reward_loop_workers])
        manager.drydock_reward = reward
    return manager, tokenizer


def _start_ray(folder: str) -> None:
    """A Ray of our own. It gives its own start 30 seconds, which a machine that others use may well take."""
    import ray

    os.environ.pop("RAY_ADDRESS", None)
    for attempt in range(RAY_STARTS):
        try:
            ray.init(
                address="local",
                num_cpus=2,
                include_dashboard=False,
                object_store_memory=OBJECT_STORE,
                log_to_driver=True,
                _temp_dir=os.path.join(folder, "r"),
            )
            return
        except Exception as error:
            ray.shutdown()
            if "timed out during startup" not in str(error) or attempt + 1 == RAY_STARTS:
                raise


def _lead_agents(channel: Channel, manager: Any) -> None:
    """What the agents are given leads through a port that sees their calls; the port behind it is in verl's worker."""
    import ray

    workers = manager.agent_loop_workers
    addresses = ray.get([worker.gate.remote() for worker in workers])
    seen = channel.ask("proxies", addresses=[address.removesuffix("/v1") for address in addresses])["addresses"]
    ray.get([worker.gate.remote(f"{address}/v1") for worker, address in zip(workers, seen, strict=True)])


def batch_of(job: dict[str, Any], config: Any, tokenizer: Any) -> tuple[list[Any], dict[str, Any]]:
    """The samples as verl's own data set gives them, a group of runs each, and what was put into them."""
    import numpy as np
    from verl.protocol import DataProto
    from verl.utils.dataset.rl_dataset import collate_fn, get_dataset_class

    work, data = job["work"], config.data
    samples, put = [], set()
    for index, sample in enumerate(work["samples"]):
        sample = dict(sample)
        if data.prompt_key not in sample and "messages" in sample:
            sample[data.prompt_key] = sample["messages"]
            put.add(f"{data.prompt_key} from messages")
        if work["kind"] == "loop" and data.get("reward_fn_key", "data_source") not in sample:
            sample.setdefault("data_source", "drydock")
            put.add("data_source")
        if work["kind"] == "loop" and "reward_model" not in sample and "answer" in sample:
            sample["reward_model"] = {"style": "rule", "ground_truth": str(sample["answer"])}
            put.add("reward_model.ground_truth from answer")
        samples.append({**sample, "drydock_index": index})
    file = os.path.join(job["folder"], "samples.jsonl")
    with open(file, "w", encoding="utf-8") as out:
        out.writelines(json.dumps(sample) + "\n" for sample in samples)
    data.cache_dir = os.path.join(job["folder"], "cache")
    data.filter_overlong_prompts_workers = None
    data.shuffle = False
    dataset = get_dataset_class(data)(data_files=[file], tokenizer=tokenizer, processor=None, config=data)
    groups = []
    for number in range(len(dataset)):
        one = DataProto.from_single_dict(collate_fn([dataset[number]]))
        group = one.repeat(repeat_times=work["group_size"], interleave=True)
        group.non_tensor_batch["priority"] = np.arange(len(group), dtype=np.int64)
        group.meta_info["global_steps"] = 0
        groups.append(group)
    return groups, {"given": len(samples), "kept": len(dataset), "put": sorted(put)}


def _roll_out(channel: Channel, job: dict[str, Any], config: Any, manager: Any, tokenizer: Any) -> None:
    """All groups at once, over the workers in turn."""
    import ray
    from drydock_verl_parts import explain

    groups, told = batch_of(job, config, tokenizer)
    channel.say("data", **told)
    began = time.monotonic()
    workers = manager.agent_loop_workers
    waiting = {
        workers[number % len(workers)].generate_sequences.remote(group): number for number, group in enumerate(groups)
    }
    accepted = rejected = 0
    results: dict[int, Any] = {}

    def progress() -> None:
        channel.say(
            "progress", work=0, enqueued=0, running=len(waiting), accepted=accepted, rejected=rejected, capacity=1
        )

    progress()
    while waiting:
        done, _ = ray.wait(list(waiting), num_returns=1)
        number = waiting.pop(done[0])
        try:
            results[number] = ray.get(done[0])
            accepted += 1
        except Exception as error:  # noqa: BLE001  # whatever a run raised: the others go on
            rejected += 1
            channel.say("lost", index=number, type=type(error).__name__, text=str(error)[-4000:])
            sys.stderr.write(explain(error))
            sys.stderr.flush()
        progress()
    channel.say("batch", work=0, asked=len(groups), got=len(results), seconds=time.monotonic() - began)
    for number, result in sorted(results.items()):
        channel.say("trajectory", work=0, index=number, **_plain(result, tokenizer))


def _plain(result: Any, tokenizer: Any) -> dict[str, Any]:
    """A group as numbers, with shapes and dtypes as they came, and its texts."""
    tensors, rows = {}, {}
    for name, value in result.batch.items():
        tensors[name] = {"shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
        rows[name] = numbers(value.tolist())
    width = result.batch["prompts"].shape[1]
    texts = []
    for row in range(len(result)):
        attention = result.batch["attention_mask"][row].bool()
        response = result.batch["responses"][row]
        prompt = result.batch["prompts"][row][attention[:width]].tolist()
        answer = response[result.batch["response_mask"][row].bool()].tolist()
        texts.append(
            {
                "prompt": tokenizer.decode(prompt),
                "answer": tokenizer.decode(answer),
                "answer_plain": tokenizer.decode(answer, skip_special_tokens=True),
            }
        )
    others = {name: str(value.dtype) for name, value in result.non_tensor_batch.items()}
    return {"form": "verl", "tensors": tensors, "rows": rows, "others": others, "texts": texts}


def _leave(channel: Channel) -> None:
    """End Ray, and wait until its processes are gone: they end in their own time, and what doesn't is ended."""
    with contextlib.suppress(Exception):
        import ray

        ray.shutdown()
    mark = os.environ.get("DRYDOCK_RUNMARK", "")
    began = time.monotonic()
    slow: set[int] = set()
    while mark and (others := _others(mark)) and time.monotonic() - began < 2 * LEAVE_SECONDS:
        if time.monotonic() - began > LEAVE_SECONDS:
            # This Ray is ours, so they are as well.
            slow.update(others)
            for pid in others:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
    channel.say("left", slow=len(slow))


def _others(mark: str) -> list[int]:
    """Processes that carry our mark, besides this one."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        if int(name) == os.getpid():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
            if mark.encode() in file.read():
                found.append(int(name))
    return found


if __name__ == "__main__":
    main()
