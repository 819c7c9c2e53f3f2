"""llama.cpp's server as a process of a test's own, from the lock of its image, without the gateway."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.harness import CLONE, free_port
from tests.support.locked_python import locked_python
from tests.support.vllm_server import wait_for


@contextmanager
def serving(gguf: Path, folder: Path) -> Iterator[str]:
    """A server of a GGUF file under the name ``tiny``; gives its base URL.

    Args:
        folder: for its log.
    """
    python, port, log = locked_python("llamacpp"), free_port(), folder / "llamacpp.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [str(python), str(CLONE / "docker/llamacpp/llamacpp_server.py"), "--model", str(gguf), "--alias", "tiny",
             "--port", str(port), "--context", "8192", "--slots", "4", "--threads", "1"],
            env=os.environ, stdout=out, stderr=out,
        )  # fmt: skip
    try:
        wait_for(f"http://127.0.0.1:{port}/health", process, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(timeout=60)
