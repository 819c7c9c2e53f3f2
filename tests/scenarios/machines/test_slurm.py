"""The Slurm job script, from its first to its last line, with stand-ins for Slurm and Apptainer: Docker runs the image.

What it can't show: how Apptainer treats our image, and how Slurm hands signals and resources on.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.harness import CLONE, docker
from tests.support.machines import Cluster

pytestmark = [pytest.mark.docker, pytest.mark.slow]

SCRIPT = CLONE / "examples" / "slurm" / "drydock.sbatch"
PROGRAMS = {
    "scontrol": 'echo "$3" | tr , "\\n"',
    "srun": """
        while :; do case $1 in
            --nodelist=*) export NODE=${1#*=}; shift ;;
            --*) shift ;;
            *) break ;;
        esac; done
        case $1 in
            hostname) grep "^$NODE " "$MACHINES" | cut -d " " -f 2 ;;
            mkdir | rm) "$@" ;;
            *) exec "$@" ;;
        esac""",
    "apptainer": """
        shift  # exec
        options=()
        while :; do case $1 in
            --bind) case $2 in
                # What is one node's own there is one folder here.
                /dev/shm) options+=(-v "/dev/shm/$JOB-$NODE:/dev/shm") ;;
                *:/tmp) mkdir -p "${2%:*}/$NODE"; chmod 1777 "${2%:*}/$NODE"; options+=(-v "${2%:*}/$NODE:/tmp") ;;
                *) options+=(-v "$2") ;;
                esac; shift 2 ;;
            --env) options+=(--env "$2"); shift 2 ;;
            --pwd) options+=(--workdir "$2"); shift 2 ;;
            --*) shift ;;
            *) break ;;
        esac; done
        image=$1; shift
        network=container:$(grep "^$NODE " "$MACHINES" | cut -d " " -f 3)
        exec docker run --rm --init --label "dev.drydock.test-job=$JOB" --network "$network" \\
            --user "$(id -u):$(id -g)" "${options[@]}" --entrypoint "$1" "$image" "${@:2}" """,
}
TRAIN = """
import os, sys, ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On
ray.init(log_to_driver=False)
host = ray.remote(num_cpus=0)(lambda: (ray.util.get_node_ip_address(), os.environ["OPENAI_BASE_URL"]))
nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
print("ran on", sorted(ray.get([host.options(scheduling_strategy=On(one, soft=False)).remote() for one in nodes])))
sys.exit(7)
"""


@pytest.fixture
def job(cluster: Cluster, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a job on three machines of their own."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/bash\nset -eu\n{text}\n")
        (programs / name).chmod(0o755)
    machines = [cluster.machine() for _ in range(3)]
    nodes = {f"n{number}": machine for number, machine in enumerate(machines)}
    (tmp_path / "machines").write_text("".join(f"{n} {m.address} {m.name}\n" for n, m in nodes.items()))
    (tmp_path / "train.py").write_text(TRAIN)
    yield {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "MACHINES": str(tmp_path / "machines"),
        "JOB": cluster.head.project,
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_JOB_NODELIST": ",".join(nodes),
        "SLURM_CPUS_ON_NODE": "1",
        "OPENAI_BASE_URL": "http://10.0.0.9:8080/v1",
    }
    # What a test that was broken off leaves would hold the machines' networks.
    if left := docker("ps", "-aq", "--filter", f"label=dev.drydock.test-job={cluster.head.project}").split():
        docker("rm", "--force", *left)
    for path in Path("/dev/shm").glob(f"{cluster.head.project}-*"):
        shutil.rmtree(path)


def test_a_job_runs_its_command_on_a_cluster_of_all_its_nodes_and_leaves_nothing(
    cluster: Cluster, job: dict[str, str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [str(SCRIPT), cluster.image, "python", "train.py"],
        env=job, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 7, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    [line] = [line for line in done.stdout.splitlines() if line.startswith("ran on")]
    assert line.count("http://10.0.0.9:8080/v1") == 3
    assert not docker("ps", "-aq", "--filter", f"label=dev.drydock.test-job={job['JOB']}")
    assert not list(tmp_path.glob(".drydock-*"))
    assert not Path(f"/tmp/drydock-{job['SLURM_JOB_ID']}").exists()


def test_it_says_how_it_is_called(tmp_path: Path) -> None:
    done = subprocess.run([str(SCRIPT)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("sbatch ")
