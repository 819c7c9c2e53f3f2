"""What of a Slurm job is known without submitting one; pure. It never passes, for nothing of it was run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from harness.agent.source import AgentSource
from harness.checks.findings import Finding
from harness.checks.stage4.data import Rolled

SHOWN = ("nodes", "ntasks-per-node", "cpus-per-task", "mem", "gres")


def rendered(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:  # noqa: ARG001
    """AReaL writes a job for its workers that a shell, and Slurm where it is installed, can read."""
    event = rolled.event("slurm")
    if event is None:
        return
    script: str = event["script"]
    if event["refused"]:
        yield _failed("AReaL writes no job for its workers", event["refused"], "scheduler: and rollout.scheduling_spec")
    elif event["syntax"]:
        yield _failed("bash can't read AReaL's job", event["syntax"], "rollout.scheduling_spec[0].cmd and env_vars")
    elif event["slurm"] is not None and not event["accepted"]:
        yield _failed("sbatch --test-only refuses AReaL's job", event["slurm"], "rollout.scheduling_spec[0]")
    else:
        asked = options(script)
        shown = ", ".join(f"{name}={asked[name]}" for name in SHOWN if name in asked)
        looked = "bash and sbatch --test-only read it" if event["slurm"] is not None else "bash reads it"
        yield Finding(
            id="areal.slurm",
            title="Slurm job",
            status="skip",
            detail=f"written by AReaL and not submitted; {looked}: {shown}",
            consequence="Whether it starts is only seen on the cluster.",
            facts={"options": asked, "script": script, "slurm": event["slurm"]},
        )


def options(script: str) -> dict[str, str]:
    """The options that a job's script gives Slurm."""
    found = {}
    for line in script.splitlines():
        if line.startswith("#SBATCH --"):
            name, _, value = line.removeprefix("#SBATCH --").partition("=")
            found[name.strip()] = " ".join(shlex.split(value)) if value else ""
    return found


def _failed(what: str, why: str, mend: str) -> Finding:
    return Finding(
        id="areal.slurm",
        title="Slurm job",
        status="fail",
        detail=f"{what}: {' '.join(why.split())[:300]}",
        consequence="Training ends where it would submit it.",
        mend=mend,
    )
