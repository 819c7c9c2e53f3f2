"""Joins a Ray cluster and runs one program on each of its nodes; a program of its own, run by a Python that has Ray.

Standard input: a line ``{"address", "seconds"}``, then one ``{"parcel", "program", "request", "start_seconds",
"seconds", "skip"}``; whoever closes it ends this program. Standard output: a line ``{"nodes": […], "dashboard"}``, then
one ``{"node", "answer" | "same_as" | "error"}`` for each node, then ``{"done": true}``; or a line ``{"error"}``.

Imports nothing of ours, and Ray only once it is asked to: it runs with whatever Python the cluster's own version needs.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import sys
import threading
import time
from typing import Any

# This script's folder, whose modules have names that others use as well.
sys.path[:] = [
    folder for folder in sys.path if os.path.realpath(folder or ".") != os.path.dirname(os.path.realpath(__file__))
]

_CHANNEL = 1
TITLE = "drydock"


def main() -> None:
    """Serve one dump."""
    global _CHANNEL
    # Ray and its libraries print as they like; the answers have a channel of their own.
    _CHANNEL = os.dup(1)
    os.dup2(2, 1)
    try:
        asked = json.loads(sys.stdin.readline())
        ray, context = _join(asked)
    except BaseException as error:  # noqa: BLE001  # whatever it is, whoever asked is told
        _say({"error": _first_line(error)})
        _leave(1)
    nodes = ray.nodes()
    _say({"nodes": [_described(node) for node in nodes], "dashboard": context.get("webui_url") or ""})
    line = sys.stdin.readline()
    if not line:
        _leave(0)
    # From here on nobody writes any more: an end of the input is the end of whoever asked.
    threading.Thread(target=_end_with_asker, daemon=True).start()
    try:
        alive = [_described(node) for node in nodes if node["Alive"]]
        # Through the client's port no node need be within reach from here.
        _run(ray, json.loads(line), alive, _Reach(alive) if not asked["address"].startswith("ray://") else None)
        _say({"done": True})
    except BaseException as error:  # noqa: BLE001
        _say({"error": _first_line(error)})
    with contextlib.suppress(Exception):
        ray.shutdown()
    _leave(0)


def _end_with_asker() -> None:
    sys.stdin.read()
    _leave(1)


def _join(asked: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    import ray

    # Without a runtime environment: nothing is to be installed or copied on any node.
    for name in ("RAY_RUNTIME_ENV", "RAY_JOB_CONFIG_JSON_ENV_VAR", "RAY_NAMESPACE"):
        os.environ.pop(name, None)
    found = ray.init(address=asked["address"], log_to_driver=False, logging_level="ERROR", namespace=TITLE)
    if not asked["address"].startswith("ray://"):
        joined = ray.get_runtime_context().gcs_address
        if not _same(joined, asked["address"]):
            ray.shutdown()
            raise RuntimeError(f"Ray joined the cluster at {joined} instead")
    return ray, dict(getattr(found, "address_info", None) or {"webui_url": getattr(found, "dashboard_url", "")})


def _same(joined: str, asked: str) -> bool:
    """Whether two addresses are one control store's; a loopback address is any of this machine's."""
    import socket

    def resolved(address: str) -> set[str]:
        host = address.rpartition(":")[0].strip("[]")
        return {str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}

    def is_ours(address: str) -> bool:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            return probe.connect_ex((address, 9)) == 0 and probe.getsockname()[0] == address

    if joined.rpartition(":")[2] != asked.rpartition(":")[2]:
        return False
    here, there = resolved(joined), resolved(asked)
    return bool(here & there) or (all(map(_is_loopback, there)) and any(map(is_ours, here)))


def _is_loopback(address: str) -> bool:
    return address == "::1" or address.startswith("127.")


def _described(node: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": node["NodeID"],
        "host": node.get("NodeManagerHostname") or node.get("NodeManagerAddress") or "",
        "address": node.get("NodeManagerAddress") or "",
        "port": int(node.get("NodeManagerPort") or 0),
        "alive": bool(node["Alive"]),
        "resources": {name: value for name, value in (node.get("Resources") or {}).items() if ":" not in name},
        "death": str(node.get("DeathReasonMessage") or ""),
    }


class _Reach:
    """Which nodes can't be reached any more, tried over and over: Ray takes a minute until it gives one up."""

    EVERY, SECONDS, TRIES = 1.0, 2.0, 2

    def __init__(self, nodes: list[dict[str, Any]]) -> None:
        self._nodes = {node["id"]: (node["address"], node["port"]) for node in nodes if node["port"]}
        self._failed: dict[str, int] = {}
        self._reasons: dict[str, str] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def lost(self, node: str) -> str:
        """Why a node can't be reached, "" where it can."""
        if self._failed.get(node, 0) < self.TRIES:
            return ""
        address, port = self._nodes[node]
        return f"its machine can't be reached: {address}:{port}: {self._reasons.get(node, '')}"

    def _watch(self) -> None:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(max_workers=min(64, len(self._nodes) or 1)) as pool:
            while True:
                list(pool.map(self._try, self._nodes))
                time.sleep(self.EVERY)

    def _try(self, node: str) -> None:
        import socket

        if self._failed.get(node, 0) >= self.TRIES:
            return
        try:
            socket.create_connection(self._nodes[node], timeout=self.SECONDS).close()
            self._failed[node] = 0
        except OSError as error:
            self._reasons[node] = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
            self._failed[node] = self._failed.get(node, 0) + 1


def _run(ray: Any, work: dict[str, Any], alive: list[dict[str, Any]], reach: _Reach | None) -> None:
    """A short task on each node that tells where it is, then the program on each place once."""
    nodes = [node["id"] for node in alive]
    parcel, program = base64.b64decode(work["parcel"]), b""
    if work.get("program"):
        with open(work["program"], "rb") as file:
            program = file.read()
    big = ray.put((parcel, program))
    started = time.monotonic()
    start_by, end_by = started + work["start_seconds"], started + work["seconds"]
    hello, sample = ray.remote(_tell_place()), ray.remote(_run_parcel())
    greetings = {_pinned(hello, node, "hello").remote(): node for node in nodes}
    working: dict[Any, str] = {}
    places: dict[tuple[Any, ...], str] = {}
    while greetings or working:
        now = time.monotonic()
        if now > start_by:
            late = f"no process of Ray came up on it within {work['start_seconds']:g} s"
            _leave_out(ray, greetings, lambda _node, late=late: late)
        if reach is not None:
            _leave_out(ray, greetings, reach.lost)
            _leave_out(ray, working, reach.lost)
        if now > end_by:
            _leave_out(ray, working, lambda _node: "it didn't answer in time")
            return
        open_ones = [*greetings, *working]
        ready = ray.wait(open_ones, num_returns=1, timeout=0.2)[0] if open_ones else []
        for reference in ready:
            node = greetings.pop(reference, "") or working.pop(reference)
            try:
                result = ray.get(reference)
            except Exception as error:  # noqa: BLE001  # one node's failure is that node's answer
                _say({"node": node, "error": _first_line(error)})
                continue
            if isinstance(result, bytes):
                _say({"node": node, "answer": base64.b64encode(result).decode()})
                continue
            place = (result["boot_id"], result["pid_namespace"])
            if place in places:
                _say({"node": node, "same_as": places[place]})
            elif any(place == tuple(own[:2]) and own[2] in (0, result["uid"]) for own in work["skip"]):
                _say({"node": node, "same_as": ""})
            else:
                places[place] = node
                fits = result["machine"] == os.uname().machine
                rest = max(1.0, end_by - time.monotonic() - 2)
                working[_pinned(sample, node, "sample").remote([big], work["request"], rest, fits)] = node


def _pinned(task: Any, node: str, name: str) -> Any:
    """Without CPUs it also starts where all are taken."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return task.options(
        num_cpus=0, max_retries=0, name=f"{TITLE} {name}",
        scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
    )  # fmt: skip


def _leave_out(ray: Any, pending: dict[Any, str], reason_of: Any) -> None:
    """No longer wait for those nodes for which there is a reason, and tell it."""
    for reference, node in list(pending.items()):
        if reason := reason_of(node):
            del pending[reference]
            with contextlib.suppress(Exception):
                ray.cancel(reference, force=True)
            _say({"node": node, "error": reason})


# Functions in functions travel by value, so that a node needs none of this file.


def _tell_place() -> Any:
    def hello() -> dict[str, Any]:
        import os

        with open("/proc/sys/kernel/random/boot_id") as file:
            boot_id = file.read().strip()
        namespace = os.stat("/proc/self/ns/pid").st_ino
        return {"boot_id": boot_id, "pid_namespace": namespace, "uid": os.getuid(), "machine": os.uname().machine}

    return hello


def _run_parcel() -> Any:
    def sample(references: list[Any], request: str, seconds: float, fits: bool) -> bytes:
        import os
        import shutil
        import subprocess
        import sys
        import tempfile

        import ray

        parcel, program = ray.get(references[0])
        places = [place for place in (tempfile.gettempdir(), "/dev/shm", "/var/tmp") if os.access(place, os.W_OK)]
        runnable = [place for place in places if not os.statvfs(place).f_flag & os.ST_NOEXEC]
        folder = tempfile.mkdtemp(prefix="drydock-", dir=next(iter(runnable or places), None))
        try:
            path = os.path.join(folder, "sampler.pyz")
            with open(path, "wb") as file:
                file.write(parcel)
            if program and fits:
                with open(os.path.join(folder, "py-spy"), "wb") as file:
                    file.write(program)
                    os.chmod(file.fileno(), 0o755)
            environment = dict(os.environ, PATH=os.pathsep.join([os.environ.get("PATH", os.defpath), folder]))
            process = subprocess.Popen(
                [sys.executable, "-I", path, folder], env=environment, cwd="/",
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
            try:
                answer, complaint = process.communicate(request.encode(), timeout=seconds)
            except subprocess.TimeoutExpired:
                process.terminate()
                try:
                    process.communicate(timeout=5)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
                raise RuntimeError("sampling took longer than it was given") from None
            if process.returncode != 0:
                said = complaint.decode("utf-8", "replace").strip().splitlines() or [f"exit code {process.returncode}"]
                raise RuntimeError(f"the sampler failed there: {said[-1][:300]}")
            return answer
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    return sample


def _first_line(error: BaseException) -> str:
    """What a person wants to read of Ray's long errors."""
    lines = [line.strip() for line in str(getattr(error, "cause", None) or error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:400]}" if lines else type(error).__name__


def _say(message: dict[str, Any]) -> None:
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(_CHANNEL, data) :]


def _leave(code: int) -> None:
    """At once: Ray's own end may wait for a cluster that hangs, and takes the job's processes down without us."""
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
