"""Workers, each with something that keeps people from debugging it. The test runs this in `dev`."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import ray


class Worker:
    """Plants its faults in its own process; its name says which."""

    def __init__(self, faults: str) -> None:
        self.folder = Path(tempfile.mkdtemp())
        for fault in faults.split("-"):
            getattr(self, fault, lambda: None)()

    def ready(self) -> int:
        return os.getpid()

    def missing(self) -> None:
        sys.modules["debugpy"] = None  # type: ignore[assignment]

    def shadowed(self) -> None:
        (self.folder / "debugpy.py").write_text("raise ImportError('not the one')\n")
        sys.path.insert(0, str(self.folder))

    def old(self) -> None:
        import debugpy

        debugpy.__version__ = "1.6.0"

    def hook(self) -> None:
        sys.breakpointhook = print

    def loopback(self) -> None:
        import debugpy

        debugpy.listen(("127.0.0.1", 0))

    def outside(self) -> None:
        (self.folder / "outside_the_mount.py").write_text("def score():\n    return 1\n")
        sys.path.insert(0, str(self.folder))
        __import__("outside_the_mount")

    def copied(self) -> None:
        __import__("reward_of_mine")

    def twice(self) -> None:
        # What Ray's own call comes to in a process without our hook; with it there is no second call.
        print("RuntimeError: debugpy.listen() has already been called on this process", file=sys.stderr, flush=True)

    def gone(self) -> None:
        import psutil
        from ray.util import debugpy as ray_debugpy

        ray_debugpy._ensure_debugger_port_open_thread_safe()
        port = str(ray._private.worker.global_worker.debugger_port)
        for process in psutil.process_iter(["cmdline"]):
            if port in (process.info["cmdline"] or ()):
                process.kill()
                process.wait()


SWITCHES = {
    "RAY_DEBUG": "yes", "RAY_DEBUG_POSTMORTEM": "1", "RAY_DEBUG_POST_MORTEM": "true", "CUDA_LAUNCH_BLOCKING": "1",
    "PYDEVD_USE_CYTHON": "NO",
}  # fmt: skip
# Few processes, because each takes a second to start.
PLANTED = ("fine", "switches", "missing-outside-copied", "shadowed-twice", "old-hook", "loopback", "gone")


def main() -> None:
    working_dir = tempfile.mkdtemp()
    Path(working_dir, "reward_of_mine.py").write_text("def score():\n    return 1\n")
    ray.init(log_to_driver=False, runtime_env={"working_dir": working_dir})
    workers = []
    for name in PLANTED:
        more: dict[str, Any] = {"runtime_env": {"env_vars": SWITCHES}} if name == "switches" else {}
        workers.append(ray.remote(num_cpus=0.01)(Worker).options(name=name, **more).remote(name))
    ray.get([worker.ready.remote() for worker in workers])
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
