"""Whether this machine's driver can do what an image wants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.errors import ToolTooOld
from harness.stack.gpu.machine import Machine, cuda_missing


def driver_fits(client: Any, machine: Machine, images: Iterable[str]) -> None:
    """Refuse an image whose CUDA is newer than the driver can do; it would fail with a riddle.

    Raises:
        ToolTooOld: and what is wanted.
    """
    for image in images:
        environment = dict(item.partition("=")[::2] for item in client.images.get(image).attrs["Config"]["Env"] or [])
        if wanted := cuda_missing(environment, machine):
            raise ToolTooOld(
                f"{image} wants CUDA {wanted}, and this machine's driver {machine.driver} can do {machine.cuda}.",
                consequence="Nothing was started.",
                mend="install a newer NVIDIA driver; or an older image: FRAMEWORK=, ENGINE=",
            )
