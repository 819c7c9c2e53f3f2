"""Runs AReaL's real rollout controller once; a program of its own, run by an interpreter that has AReaL.

``driver.py JOB EVENTS CONTROL``: a JSON file that says what to do, and two open descriptors. Each line written to
EVENTS is one JSON object with ``event``; lines read from CONTROL are answers to it, and its end means that whoever
asked is gone. Everything that AReaL prints goes to standard output and error as ever.

Imports nothing of ours: it runs with whatever Python has AReaL, and what it says is plain data that others judge.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sys
import threading
import time
import traceback
from typing import Any

# Not this script's folder, whose modules have common names, and which AReaL would hand on to its workers.
sys.path[:] = [
    folder for folder in sys.path if os.path.realpath(folder or ".") != os.path.dirname(os.path.realpath(__file__))
]

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "inside"))

from drydock_channel import Channel, numbers, template_of  # noqa: E402
from drydock_slurm import render  # noqa: E402

# A rollout in training comes from the configuration's own sections; everything else is training's business.
SECTIONS = ("experiment_name", "trial_name", "seed", "tokenizer_path", "cluster", "rollout", "gconfig", "scheduler")
ROLE = "drydock-check"
PROGRESS_SECONDS = 0.5
OBSERVER = "drydock_observed.Agent"


def main() -> None:
    """Do one job."""
    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    channel = Channel(int(sys.argv[2]), int(sys.argv[3]), job["folder"])
    for folder in reversed(job["path"]):
        sys.path.insert(0, folder)
    phase = "import"
    controller = None
    brought: list[tuple[int, list[Any]]] = []
    config = None
    try:
        channel.say("phase", name=phase)
        versions = _import()
        channel.say("versions", **versions)
        phase = "config"
        channel.say("phase", name=phase)
        config, base, told = read_config(job)
        channel.say("config", **told)
        if told["scheduler"] == "slurm":
            channel.say("slurm", **render(config[2], base, ROLE))
        phase = "workers"
        channel.say("phase", name=phase)
        controller = _controller(job, config, base)
        if any(work["kind"] == "agent" for work in job["work"]) and job.get("start_proxy", True):
            phase = "proxy"
            channel.say("phase", name=phase)
            controller.start_proxy()
        for number, work in enumerate(job["work"]):
            phase = "rollout"
            channel.say("phase", name=phase, work=number)
            brought.append((number, _roll_out(channel, work, number, config, controller)))
    except BaseException as error:  # noqa: BLE001  # whatever it is, whoever asked is told
        channel.say("failed", phase=phase, type=type(error).__name__, text=str(error), traceback=traceback.format_exc())
    channel.say("phase", name="end")
    # AReaL takes seconds to end its workers and waits most of the time: what they brought is told meanwhile.
    telling = threading.Thread(target=_tell, args=(channel, config, brought), daemon=True)
    telling.start()
    if controller is not None:
        try:
            controller.destroy()
        except BaseException as error:  # noqa: BLE001
            channel.say("destroy", type=type(error).__name__, text=str(error))
    telling.join()
    channel.say("done")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _import() -> dict[str, str]:
    from importlib import metadata

    import areal  # noqa: F401
    from areal.engine import RemoteSGLangEngine, RemotevLLMEngine  # noqa: F401
    from areal.infra import LocalScheduler  # noqa: F401

    found = {}
    for name in ("areal", "torch", "transformers", "ray", "litellm", "openai"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def read_config(job: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """The rollout's configuration as training reads it, and what was put in for the check.

    Sections that only training needs are left alone: they may be a subclass's, or need what isn't on this machine.
    """
    from areal.api.alloc_mode import ModelAllocation
    from areal.api.cli_args import (
        BaseExperimentConfig,
        ClusterSpecConfig,
        GenerationHyperparameters,
        InferenceEngineConfig,
        SchedulerConfig,
        parse_cli_args,
    )
    from omegaconf import OmegaConf

    whole, _ = parse_cli_args(["--config", job["config"]])
    given = {}
    for name in SECTIONS:
        if name in whole and not OmegaConf.is_missing(whole, name):
            value = whole[name]
            given[name] = OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value

    def section(name: str, kind: Any) -> Any:
        return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(kind), given.get(name) or {}))

    rollout = section("rollout", InferenceEngineConfig) if "rollout" in given else None
    if rollout is None:
        raise ValueError("the configuration has no section rollout")
    # Another takes its place below; training would end with this one.
    if rollout.backend and ModelAllocation.from_str(rollout.backend, name="rollout").backend not in ("sglang", "vllm"):
        raise ValueError(f"rollout.backend {rollout.backend} is no inference engine: sglang or vllm")
    gconfig = section("gconfig", GenerationHyperparameters)
    scheduler = section("scheduler", SchedulerConfig)
    cluster = section("cluster", ClusterSpecConfig)
    as_asked = section("rollout", InferenceEngineConfig)
    changed: dict[str, Any] = {}
    for name, value in job["set"].items():
        _set(rollout, name, value, changed)
    for spec in rollout.scheduling_spec:
        spec.gpu = 0
        # A PYTHONPATH of the configuration's own takes the place of AReaL's, in which our folder is.
        if "PYTHONPATH" in spec.env_vars:
            spec.env_vars["PYTHONPATH"] = os.pathsep.join([*job["path"], spec.env_vars["PYTHONPATH"]])
    folder = job["folder"]
    cluster.fileroot = rollout.fileroot = folder
    cluster.name_resolve.type = "nfs"
    cluster.name_resolve.nfs_record_root = os.path.join(folder, "names")
    os.makedirs(cluster.name_resolve.nfs_record_root, exist_ok=True)
    base = BaseExperimentConfig(
        experiment_name=str(given.get("experiment_name") or "check"),
        trial_name=str(given.get("trial_name") or "stage4"),
        cluster=cluster,
        seed=int(given.get("seed") or 1),
    )
    rollout.experiment_name, rollout.trial_name = base.experiment_name, base.trial_name
    told = {
        "changed": changed,
        "backend": rollout.backend,
        "scheduler": scheduler.type,
        "mode": rollout.agent.mode,
        "export_style": rollout.agent.export_style,
        "turn_discount": rollout.agent.turn_discount,
        "consumer_batch_size": rollout.consumer_batch_size,
        "max_concurrent_rollouts": rollout.max_concurrent_rollouts,
        "max_head_offpolicyness": rollout.max_head_offpolicyness,
        "request_timeout": rollout.request_timeout,
        "setup_timeout": rollout.setup_timeout,
        "tokenizer_path": rollout.tokenizer_path,
        "env_vars": sorted({name for spec in rollout.scheduling_spec for name in spec.env_vars}),
    }
    as_asked.experiment_name, as_asked.trial_name = base.experiment_name, base.trial_name
    return (rollout, gconfig, as_asked), base, told


def _set(rollout: Any, name: str, value: Any, changed: dict[str, Any]) -> None:
    *above, last = name.split(".")
    owner = rollout
    for part in above:
        owner = owner[int(part)] if part.isdigit() else getattr(owner, part)
    before = getattr(owner, last)
    if before != value:
        setattr(owner, last, value)
        changed[name] = {"was": "" if "key" in last else before, "is": "" if "key" in last else value}


def _controller(job: dict[str, Any], config: Any, base: Any) -> Any:
    from areal.api import LocalInfServerInfo
    from areal.engine import RemoteSGLangEngine, RemotevLLMEngine
    from areal.infra import LocalScheduler

    rollout = config[0]
    scheduler = LocalScheduler(exp_config=base, startup_timeout=rollout.setup_timeout)
    # AReaL gives its proxy 60 seconds to import half of the world, which no configuration changes.
    with contextlib.suppress(AttributeError):
        LocalScheduler._wait_for_fork_ready.__defaults__ = (max(60.0, rollout.setup_timeout),)
    engine = RemoteSGLangEngine if rollout.backend.startswith("sglang") else RemotevLLMEngine
    controller = engine.as_controller(rollout, scheduler)
    info = LocalInfServerInfo(host=job["server"]["host"], port=job["server"]["port"], process=None)
    # AReaL seeds its worker with the seed and this name, and the worker draws its proxy's port after that: two checks
    # on one machine would draw the same port, and the second would take the first one's proxy for its own.
    role = f"{ROLE}-{secrets.token_hex(4)}"
    controller.initialize(role=role, server_infos=[info] * job["servers"])
    return controller


def _roll_out(channel: Channel, work: dict[str, Any], number: int, config: Any, controller: Any) -> list[Any]:
    """One batch through the controller, as its ``rollout_batch`` does it; what came is in this process then."""
    from areal.infra.rpc.rtensor import RTensor

    proxies = list(getattr(controller, "proxy_addrs", []))
    if work["kind"] == "agent":
        # What the agents are given leads through a port that sees their calls; the proxy behind it is AReaL's own, and
        # so is the way to it of all that AReaL itself asks there: four requests a run, which tell us nothing.
        doors = channel.ask("proxies", addresses=proxies)["addresses"] if proxies else []
        led = dict(zip(proxies, doors, strict=True))
        workflow, kwargs = OBSERVER, {"drydock": {**work["agent"], "work": number, "doors": led}}
    else:
        workflow = "areal.workflow.rlvr.RLVRWorkflow"
        kwargs = {"reward_fn": work["reward"], "gconfig": config[1], "tokenizer": config[0].tokenizer_path}
    data = [
        {**sample, "drydock_index": index} if work["kind"] == "agent" else sample
        for index, sample in enumerate(work["samples"])
    ]
    ended = threading.Event()
    watcher = threading.Thread(target=_tell_progress, args=(channel, controller, number, ended), daemon=True)
    watcher.start()
    began = time.monotonic()
    try:
        results = controller.rollout_batch(
            data, workflow=workflow, workflow_kwargs=kwargs, group_size=work["group_size"]
        )
    finally:
        ended.set()
        watcher.join()
    seconds = time.monotonic() - began
    channel.say("batch", work=number, asked=len(data), got=len(results), seconds=seconds)
    return [RTensor.localize(result) for result in results]


def _tell(channel: Channel, config: Any, brought: list[tuple[int, list[Any]]]) -> None:
    """What came of each batch, and what the tokenizer makes of a conversation."""
    if not brought:
        return
    try:
        tokenizer = _tokenizer(config)
        for number, results in brought:
            for index, result in enumerate(results):
                channel.say("trajectory", work=number, index=index, **_plain(result, tokenizer))
        channel.say("template", **template_of(tokenizer))
    except BaseException as error:  # noqa: BLE001  # whatever it is, whoever asked is told
        channel.say(
            "failed", phase="template", type=type(error).__name__, text=str(error), traceback=traceback.format_exc()
        )


def _tell_progress(channel: Channel, controller: Any, number: int, ended: threading.Event) -> None:
    last = None
    while True:
        over = ended.wait(PROGRESS_SECONDS)
        stats = controller.staleness_manager.get_stats()
        now = {
            "enqueued": stats.enqueued,
            "running": stats.running,
            "accepted": stats.accepted,
            "rejected": stats.rejected,
            "capacity": controller.get_capacity(),
        }
        if now != last:
            channel.say("progress", work=number, **now)
            last = now
        if over:
            return


def _plain(local: Any, tokenizer: Any) -> dict[str, Any]:
    """A trajectory as numbers, with shapes and dtypes as they came, and its texts."""
    import torch

    tensors: dict[str, Any] = {}
    rows: dict[str, Any] = {}
    others: dict[str, str] = {}
    for name, value in local.items():
        if isinstance(value, torch.Tensor):
            tensors[name] = {"shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
            rows[name] = numbers(value.tolist())
        else:
            others[name] = type(value).__name__
    texts = []
    if tokenizer is not None and "input_ids" in local and "attention_mask" in local:
        mask = local.get("loss_mask")
        for row in range(local["input_ids"].shape[0]):
            keep = local["attention_mask"][row].bool()
            ids = local["input_ids"][row][keep].tolist()
            answer = mask[row][keep].tolist() if mask is not None else [0] * len(ids)
            texts.append(
                {
                    "prompt": tokenizer.decode([token for token, use in zip(ids, answer, strict=True) if not use]),
                    "answer": tokenizer.decode([token for token, use in zip(ids, answer, strict=True) if use]),
                    "answer_plain": tokenizer.decode(
                        [token for token, use in zip(ids, answer, strict=True) if use], skip_special_tokens=True
                    ),
                }
            )
    return {"tensors": tensors, "rows": rows, "others": others, "texts": texts}


def _tokenizer(config: Any) -> Any:
    from areal.utils.hf_utils import load_hf_tokenizer

    return load_hf_tokenizer(config[0].tokenizer_path) if config[0].tokenizer_path else None


if __name__ == "__main__":
    main()
