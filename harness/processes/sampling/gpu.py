"""How busy the GPU of each process is, as NVML tells it through the driver's own ``nvidia-smi``.

Written without a GPU at hand: the columns are those that NVIDIA documents, and nothing of this was run on one.
"""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from collections.abc import Iterator

_SECONDS = 5.0


def utilisation() -> dict[int, float]:
    """Process to the utilisation of its GPU in per cent, the busiest where it has several; {} where there is no GPU.

    The driver counts processes in the machine's own PID namespace: from inside a container it names others, or none.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    try:
        gpus = _ask(program, "--query-gpu=uuid,utilization.gpu")
        return busiest(gpus, _ask(program, "--query-compute-apps=pid,gpu_uuid")) if gpus else {}
    except (OSError, subprocess.SubprocessError):
        return {}  # a driver that hangs or is broken is the doctor's matter; stacks are there all the same


def busiest(gpus: str, processes: str) -> dict[int, float]:
    """Read what the two questions were answered; what can't be read (``[N/A]``) is left out."""
    percent = {uuid: float(value) for uuid, value in _pairs(gpus) if value.replace(".", "", 1).isdecimal()}
    found: dict[int, float] = {}
    for pid, uuid in _pairs(processes):
        if pid.isdecimal() and len(pid) < 19 and uuid in percent:
            found[int(pid)] = max(percent[uuid], found.get(int(pid), 0.0))
    return found


def _ask(program: str, query: str) -> str:
    done = subprocess.run(
        [program, query, "--format=csv,noheader,nounits"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=True,
    )
    return done.stdout


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    try:
        for row in csv.reader(io.StringIO(text), skipinitialspace=True):
            if len(row) == 2:
                yield row[0].strip(), row[1].strip()
    except csv.Error:
        return  # no table from here on
