"""``harness sample``: sample this PID namespace for a ``hang-dump`` somewhere else; called by Drydock itself."""

from __future__ import annotations

import signal
import sys

import click

from harness.errors import UsageError
from harness.hang.local_values import hide_secrets
from harness.processes.sampling.model import SampleRequest, checked, pack
from harness.processes.sampling.take import take


@click.command("sample")
@click.option("--request", help="The request as JSON; default: read from standard input.")
def command(request: str | None) -> None:
    """Sample the processes that are seen here; writes one compressed answer to standard output."""
    text = sys.stdin.read() if request is None else request
    try:
        wanted = checked(SampleRequest, text or "{}")
    except ValueError as error:
        raise UsageError(f"The request can't be used: {error}") from None
    # Told to end, it ends its dumpers and lets go on what they held.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    answer = take(wanted)
    sys.stdout.buffer.write(pack(hide_secrets(answer) if wanted.locals else answer))
    sys.stdout.buffer.flush()
