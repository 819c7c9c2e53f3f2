"""The parcel's ``__main__``: ends with whoever started it, and takes the folder that it was unpacked into along."""

from __future__ import annotations

import ctypes
import json
import shutil
import signal
import sys

from harness.processes.sampling.model import SampleRequest, pack
from harness.processes.sampling.take import take

_PR_SET_PDEATHSIG = 1


def main(folder: str) -> None:
    """Serve one request."""
    # Told to end, it ends its dumpers and lets go on what they held.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    try:
        # It was checked by whoever asked.
        answer = pack(take(SampleRequest(**json.load(sys.stdin))))
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1])
