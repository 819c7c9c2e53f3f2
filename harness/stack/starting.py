"""Let Compose start what was rendered, and say what Docker's refusals mean."""

from __future__ import annotations

import re

from harness import console
from harness.docker_engine import Compose
from harness.errors import ComposeFailed, DrydockError, LimitRefused

# How runc and crun say that they may not raise a limit: by the number in Linux's <bits/resource.h>, and by its name.
RUNC = re.compile(r"error setting rlimit type (\d+)")
CRUN = re.compile(r"setrlimit\W+(RLIMIT_\w+)")
LIMITS = {"3": ("stack", "LimitSTACK"), "8": ("memlock", "LimitMEMLOCK")}
BY_NAME = {"RLIMIT_STACK": "3", "RLIMIT_MEMLOCK": "8"}


def start(compose: Compose, title: str) -> None:
    """Make and start the containers; nothing is built or pulled.

    Raises:
        LimitRefused: Docker itself runs under limits that it can't raise.
        ComposeFailed: for any other reason.
    """
    try:
        with console.step(title) as step:
            for text in compose.stream("up", "--detach", "--no-build", "--pull", "never"):
                step.update(text.strip())
    except ComposeFailed as failed:
        raise explained(failed) from None


def explained(failed: ComposeFailed) -> DrydockError:
    """Decide: the same failure in words that say what to do, where its cause is known."""
    runc, crun = RUNC.search(failed.logs), CRUN.search(failed.logs)
    number = runc[1] if runc else BY_NAME.get(crun[1], "") if crun else ""
    if number not in LIMITS:
        return failed
    name, unit = LIMITS[number]
    return LimitRefused(
        f"Docker may not raise the limit `{name}` for a container, as GPUs need it (pinned memory is locked memory): "
        "it runs under a limit itself, as it does rootless or in a container.",
        mend=f"sudo systemctl edit docker   # [Service] {unit}=infinity; then restart Docker\n"
        f"{name} unlimited in /etc/security/limits.conf   # for rootless Docker, and log in again",
    )
