"""An agent's rollout as a script of one's own does it with AReaL: the calls of stage 4, and nothing is looked at.

``bare_areal.py JOB``: a JSON file with ``config``, ``agent`` (module.Class), ``path``, ``folder``, ``host``, ``port``,
``samples`` and ``group_size``. Run by an interpreter that has AReaL. Prints the seconds of the rollout.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any


def main() -> None:
    """Do one job."""
    with open(sys.argv[1], encoding="utf-8") as file:
        job: dict[str, Any] = json.load(file)
    sys.path[:0] = job["path"]
    from areal.api import LocalInfServerInfo
    from areal.api.cli_args import BaseExperimentConfig, ClusterSpecConfig, InferenceEngineConfig, parse_cli_args
    from areal.engine import RemotevLLMEngine
    from areal.infra import LocalScheduler
    from omegaconf import OmegaConf

    whole, _ = parse_cli_args(["--config", job["config"]])
    given = OmegaConf.to_container(whole["rollout"], resolve=True)
    rollout: Any = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(InferenceEngineConfig), given))
    cluster: Any = OmegaConf.to_object(OmegaConf.structured(ClusterSpecConfig))
    cluster.fileroot = rollout.fileroot = job["folder"]
    cluster.name_resolve.type = "nfs"
    cluster.name_resolve.nfs_record_root = os.path.join(job["folder"], "names")
    os.makedirs(cluster.name_resolve.nfs_record_root, exist_ok=True)
    base = BaseExperimentConfig(experiment_name="bare", trial_name="bare", cluster=cluster, seed=1)
    rollout.experiment_name, rollout.trial_name = base.experiment_name, base.trial_name
    rollout.agent.admin_api_key = "bare-admin-key"
    for spec in rollout.scheduling_spec:
        spec.gpu = 0
    scheduler = LocalScheduler(exp_config=base, startup_timeout=rollout.setup_timeout)
    LocalScheduler._wait_for_fork_ready.__defaults__ = (max(60.0, rollout.setup_timeout),)
    controller = RemotevLLMEngine.as_controller(rollout, scheduler)
    info = LocalInfServerInfo(host=job["host"], port=job["port"], process=None)
    controller.initialize(role="bare", server_infos=[info])
    controller.start_proxy()
    began = time.monotonic()
    results = controller.rollout_batch(
        job["samples"], workflow=job["agent"], workflow_kwargs={}, group_size=job["group_size"]
    )
    seconds = time.monotonic() - began
    assert len(results) == len(job["samples"]), f"{len(results)} of {len(job['samples'])} came"
    controller.destroy()
    print(f"rollout {seconds}", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
