"""The Slurm job script under Debian's Slurm: two nodes in containers, with munge, slurmctld and slurmd as packaged.

Apptainer is in no package of Debian's: a stand-in mounts and starts what it is told, in the node itself, which is made
of our image. So everything is Slurm's own but how Apptainer treats an image.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import docker_engine
from harness.settings import load_settings
from harness.stack.images import ensure_images, remove_images
from harness.stack.images.build import Recipe, build
from harness.stack.images.context import Entry
from harness.stack.images.host_config import read_host_config
from tests.support.harness import CLONE, docker, own_project, wait_for

pytestmark = [pytest.mark.docker, pytest.mark.slow]

DOCKERFILE = b"""\
ARG BASE
FROM ${BASE}
USER 0
RUN --mount=type=bind,source=build,target=/build \\
    --mount=type=secret,id=apt_sources --mount=type=secret,id=apt_conf --mount=type=secret,id=ca_bundle \\
    /build/apt-install slurmd slurmctld slurm-client munge
"""
# Without control groups and accounting, which a container has no right to.
CONFIGURATION = """\
ClusterName=test
SlurmctldHost=n1
SlurmUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SlurmdSpoolDir=/var/spool/slurmd
StateSaveLocation=/var/spool/slurmctld
SelectType=select/cons_tres
SlurmdTimeout=600
NodeName=n1 CPUs=2 RealMemory=500
NodeName=n2 CPUs=2 RealMemory=500
PartitionName=all Nodes=n1,n2 Default=YES OverSubscribe=EXCLUSIVE
"""
APPTAINER = """\
#!/bin/bash
set -eu
shift  # exec
binds=() folder=/
while :; do case $1 in
    --bind) binds+=("$2"); shift 2 ;;
    --env) export "${2?}"; shift 2 ;;
    --pwd) folder=$2; shift 2 ;;
    --*) shift ;;
    *) break ;;
esac; done
shift  # the image
export FOLDER=$folder BINDS="${binds[*]}"
exec unshare --mount bash -c '
    for bind in $BINDS; do
        from=${bind%%:*} to=${bind#*:}
        [ "$from" != "$to" ] || continue
        if [ -d "$from" ]; then mkdir -p "$to"; else mkdir -p "$(dirname "$to")"; touch "$to"; fi
        mount --bind "$from" "$to"
    done
    cd "$FOLDER" && exec "$@"' node "$@"
"""
START = """\
install -o munge -g munge -m 400 /etc/cluster/munge.key /etc/munge/munge.key
install -o munge -g munge -d /run/munge
mkdir -p /var/spool/slurmd /var/spool/slurmctld
setpriv --reuid=munge --regid=munge --clear-groups munged --force
[ "$HOSTNAME" != n1 ] || slurmctld
slurmd
exec sleep infinity
"""
TRAIN = """\
import os, sys, ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On
ray.init(log_to_driver=False)
host = ray.remote(num_cpus=0)(lambda: (ray.util.get_node_ip_address(), os.environ["OPENAI_BASE_URL"]))
nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
print("ran on", sorted(ray.get([host.options(scheduling_strategy=On(one, soft=False)).remote() for one in nodes])))
sys.exit(7)
"""


@dataclass
class Slurm:
    """Two nodes.

    Attributes:
        prefix: of their containers' names.
        folder: what is /job on both.
    """

    prefix: str
    folder: Path

    def on(self, node: str, *command: str, check: bool = True) -> str:
        """Run a command there, in the job's folder; returns what it prints."""
        server = ("--env", "OPENAI_BASE_URL=http://10.0.0.9:8080/v1")
        return docker("exec", "--workdir", "/job", *server, f"{self.prefix}-{node}", *command, check=check)

    def submit(self, *command: str) -> str:
        """Submit the script for both nodes; returns the job's number."""
        script = ("--parsable", "--nodes=2", "--output=/job/out.log", "drydock.sbatch", "image.sif")
        return self.on("n1", "sbatch", *script, *command).strip()

    def ended(self, job: str) -> str:
        """How a job ended, once it has: ``FAILED 7:0``."""

        def told() -> str:
            said = dict(
                part.partition("=")[::2] for part in self.on("n1", "scontrol", "show", "job", job, "--oneliner").split()
            )
            over = said["JobState"] not in ("PENDING", "RUNNING", "COMPLETING")
            return f"{said['JobState']} {said['ExitCode']}" if over else ""

        return str(wait_for(f"job {job} to end", told, 600))

    def left(self) -> list[str]:
        """Processes, files and secrets that a job has left on any node."""
        look = "ls -d /tmp/drydock-* /job/.drydock-* 2>/dev/null; pgrep -fl '[r]aylet|[g]cs_server|[t]rain.py' || true"
        return [line for node in ("n1", "n2") for line in self.on(node, "sh", "-c", look, check=False).splitlines()]


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """Our image with Debian's Slurm."""
    client = docker_engine.connect()
    base = ensure_images(client, load_settings({"engine": "external"}, environ={})).dev
    settings = load_settings({"namespace": f"test-{uuid.uuid4().hex[:8]}"}, environ={})
    entries = [Entry("Dockerfile", DOCKERFILE), Entry("build/apt-install", CLONE / "docker" / "build" / "apt-install")]
    recipe = Recipe("slurm", base, str(client.images.get(base).id), entries)
    yield build(client, settings, recipe, read_host_config(settings), [], "Debian's Slurm").reference
    remove_images(client, settings)


@pytest.fixture
def slurm(image: str, tmp_path: Path) -> Iterator[Slurm]:
    prefix, cluster, job = own_project("slurm"), tmp_path / "cluster", tmp_path / "job"
    cluster.mkdir()
    job.mkdir()
    (cluster / "munge.key").write_bytes(os.urandom(1024))
    (cluster / "slurm.conf").write_text(CONFIGURATION)
    (cluster / "apptainer").write_text(APPTAINER)
    (cluster / "apptainer").chmod(0o755)
    (job / "train.py").write_text(TRAIN)
    (job / "drydock.sbatch").write_text((CLONE / "examples" / "slurm" / "drydock.sbatch").read_text())
    docker("network", "create", prefix)
    try:
        for node in ("n1", "n2"):
            docker(
                "run", "--detach", "--init", "--name", f"{prefix}-{node}", "--hostname", node, "--network", prefix,
                "--network-alias", node, "--user", "0", "--shm-size", "1g",
                # For the stand-in's mounts.
                "--cap-add", "SYS_ADMIN", "--security-opt", "seccomp=unconfined",
                "--security-opt", "apparmor=unconfined",
                "--volume", f"{cluster}:/etc/cluster:ro", "--volume", f"{cluster}/slurm.conf:/etc/slurm/slurm.conf:ro",
                "--volume", f"{cluster}/apptainer:/usr/local/bin/apptainer:ro", "--volume", f"{job}:/job",
                "--entrypoint", "bash", image, "-euc", START,
            )  # fmt: skip
        found = Slurm(prefix, job)
        idle = ("sinfo", "--noheader", "--Node", "--format=%T")
        wait_for("both nodes", lambda: found.on("n1", *idle, check=False).split() == ["idle", "idle"], 120)
        yield found
    finally:
        docker("rm", "--force", f"{prefix}-n1", f"{prefix}-n2", check=False)
        docker("network", "rm", prefix, check=False)


def test_a_job_runs_on_all_its_nodes_and_its_exit_code_is_the_commands(slurm: Slurm) -> None:
    job = slurm.submit("python", "train.py")
    ended, output = slurm.ended(job), (slurm.folder / "out.log").read_text()
    assert ended == "FAILED 7:0", output[-6000:]
    [line] = [line for line in output.splitlines() if line.startswith("ran on")]
    assert line.count("http://10.0.0.9:8080/v1") == 2
    assert not slurm.left()


def test_a_job_that_is_cancelled_leaves_nothing(slurm: Slurm) -> None:
    job = slurm.submit("sh", "-c", "echo the command runs; sleep 600")
    output = slurm.folder / "out.log"
    wait_for("the command", lambda: output.exists() and "the command runs" in output.read_text(), 400)
    slurm.on("n1", "scancel", job)
    assert slurm.ended(job).startswith("CANCELLED")
    wait_for("nothing to be left", lambda: not slurm.left(), 120)
