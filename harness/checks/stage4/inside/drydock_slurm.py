"""Has AReaL write the Slurm job of a rollout's workers, and hands it to nobody.

AReaL's own controller and scheduler make it; only the call of ``sbatch`` is caught. Where Slurm is installed its own
``sbatch --test-only`` looks at it, which submits nothing either. Only the standard library and AReaL are imported.
"""

from __future__ import annotations

import shutil
import subprocess
import types
from pathlib import Path
from typing import Any

LOOK_SECONDS = 60.0


class NotSubmitted(Exception):  # nothing went wrong
    """Ends AReaL's start where it would submit a job."""


def render(rollout: Any, base: Any, role: str) -> dict[str, Any]:
    """The job's script and what was said of it.

    Args:
        rollout: the configuration's section, as training has it.
        base: experiment, trial and cluster.
        role: what AReaL calls the workers.

    Returns:
        ``script``, empty where AReaL refused to write one; ``refused``: why; ``syntax``: what bash says of it;
        ``slurm``: what ``sbatch --test-only`` says, None where there is none; ``accepted``: whether it agreed.
    """
    from areal.engine import RemoteSGLangEngine, RemotevLLMEngine
    from areal.infra.scheduler import slurm

    asked: list[list[str]] = []

    def caught(command: list[str], *_: Any, **__: Any) -> bytes:
        asked.append(command)
        raise NotSubmitted

    real = slurm.subprocess
    there = {name: getattr(real, name) for name in dir(real) if not name.startswith("__")}
    slurm.subprocess = types.SimpleNamespace(**{**there, "check_output": caught, "run": caught, "Popen": caught})
    refused = ""
    try:
        scheduler = slurm.SlurmScheduler(exp_config=base, startup_timeout=rollout.setup_timeout)
        engine = RemoteSGLangEngine if rollout.backend.startswith("sglang") else RemotevLLMEngine
        engine.as_controller(rollout, scheduler).initialize(role=role, server_args={})
    except BaseException as error:  # noqa: BLE001  # whatever it is, it is told
        if not asked:
            refused = f"{type(error).__name__}: {error}"
    finally:
        slurm.subprocess = real
    file = Path(asked[0][-1]) if asked else None
    if file is None or not file.is_file():
        return {"script": "", "refused": refused or "AReaL asked for no job", "syntax": "", "slurm": None}
    syntax = _said(["bash", "-n", str(file)])[1]
    accepted, said = True, None
    if shutil.which("sbatch"):
        accepted, said = _said(["sbatch", "--test-only", str(file)])
    script = file.read_text(encoding="utf-8", errors="replace")
    return {"script": script, "refused": "", "syntax": syntax, "slurm": said, "accepted": accepted}


def _said(command: list[str]) -> tuple[bool, str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LOOK_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    return done.returncode == 0, (done.stdout + done.stderr).strip()[:1000]
