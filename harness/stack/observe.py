"""How the stack is: what the engine says of each container, and what each service answers when it is asked.

Gathering is in :func:`look`; :func:`judge` decides and is pure. Light imports only: a warm `up` is made of this.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

from harness import docker_engine
from harness.docker_engine import Container
from harness.stack.expected import Expected

Condition = Literal["ok", "starting", "silent", "missing", "created", "exited", "paused", "stopped", "unhealthy"]

# A probe must not hold up a warm `up`; what answers later than this is looked at again, or is wedged.
PROBE_SECONDS = 5.0
LATE = f"nothing said within {PROBE_SECONDS:.0f} s"


@dataclass(frozen=True)
class Answer:
    """What a service said when it was asked.

    Attributes:
        ok: it answered as a service that works does.
        detail: a few words for people.
        late: somebody listens, and said nothing in time.
    """

    ok: bool
    detail: str
    late: bool = False


@dataclass(frozen=True)
class Service:
    """One service: its containers and its condition."""

    name: str
    expected: int
    condition: Condition
    detail: str
    containers: tuple[Container, ...]

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "service": self.name,
            "condition": self.condition,
            "detail": self.detail,
            "expected": self.expected,
            "containers": [
                {"name": c.name, "id": c.id[:12], "status": c.status, "health": c.health, "image": c.image}
                for c in self.containers
            ],
        }


def look(client: Any, expected: Expected) -> list[Service]:
    """Gather: every service that should be there, and those that run without being expected (expected 0)."""
    with ThreadPoolExecutor(max_workers=3) as pool:
        listing = pool.submit(docker_engine.containers, client, expected.project)
        answers = {expected.head: pool.submit(ask_ray, expected)}
        if "inference" in expected.services:
            answers["inference"] = pool.submit(ask_server, expected)
        found = listing.result()
        said = {name: future.result() for name, future in answers.items()}
    names = sorted(set(expected.services) | {c.service for c in found})
    return [
        judge(name, expected.services.get(name, 0), tuple(c for c in found if c.service == name), said.get(name))
        for name in names
    ]


def judge(name: str, expected: int, containers: tuple[Container, ...], answer: Answer | None) -> Service:
    """Decide a service's condition from its containers and its answer; the worst container counts."""

    def service(condition: Condition, detail: str) -> Service:
        return Service(name, expected, condition, detail, containers)

    if len(containers) < expected:
        return service("missing", "not created" if not containers else f"{len(containers)} of {expected}")
    for container in containers:
        if container.status in ("exited", "dead"):
            reason = "out of memory" if container.oom_killed else _exit_reason(container.exit_code)
            return service("exited", f"{reason}")
        if container.status == "paused":
            return service("paused", "paused with docker pause")
        if container.status in ("created", "restarting"):
            return service("created", "created but not started")
        if container.stopped_processes:
            count = len(container.stopped_processes)
            return service("stopped", f"{count} process{'es' * (count > 1)} stopped by a signal (SIGSTOP)")
        if not container.networks:
            return service("unhealthy", "on no network any more")
    return service(*_by_its_answer(containers, answer))


def _by_its_answer(containers: tuple[Container, ...], answer: Answer | None) -> tuple[Condition, str]:
    """Condition and detail of a service whose containers all run."""
    if answer is None:
        return "ok", "running"
    if answer.ok:
        return "ok", answer.detail
    if any(container.health == "unhealthy" for container in containers):
        return "unhealthy", answer.detail
    if answer.late and all(container.health == "healthy" for container in containers):
        # It was ready, as the engine saw a moment ago: a busy machine, or the first seconds of a hang.
        return "silent", f"was ready before; {answer.detail}"
    return "starting", answer.detail


def _exit_reason(code: int) -> str:
    if code > 128:
        names = {130: "SIGINT", 134: "SIGABRT", 137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM"}
        return f"ended by {names.get(code, f'signal {code - 128}')} (exit code {code})"
    return f"exit code {code}"


def ask_server(expected: Expected) -> Answer:
    """Ask the inference server whether tokens flow; its key is read from the key file."""
    url = f"http://127.0.0.1:{expected.port}/health"
    key = expected.key("api_key")
    status, body, reason = _get(url, {"Authorization": f"Bearer {key}"} if key else {})
    if status == 200:
        return Answer(True, "generates tokens")
    if status is None:
        return _nothing(expected.port, reason)
    said = ""
    try:
        value = json.loads(body)
        said = str(value.get("reason") or value.get("error", {}).get("message") or "")
    except (ValueError, AttributeError, RecursionError):
        pass
    return Answer(False, f"HTTP {status} {said}".strip())


def ask_ray(expected: Expected) -> Answer:
    """Ask Ray's dashboard how many nodes are alive."""
    url = f"http://127.0.0.1:{expected.dashboard_port}/nodes?view=summary"
    token = expected.key("ray_token")
    status, body, reason = _get(url, {"Authorization": f"Bearer {token}"} if token else {})
    if status is None:
        return _nothing(expected.dashboard_port, reason)
    if status != 200:
        return Answer(False, f"dashboard answers HTTP {status}")
    try:
        summary = json.loads(body)["data"]["summary"]
        alive = sum(1 for node in summary if node["raylet"].get("state") == "ALIVE")
        if expected.head == "dev":
            # How many machines there should be, nobody knows.
            return Answer(alive >= 1, f"{alive} node{'s' * (alive != 1)}, this one among them")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Answer(False, "dashboard answers something that is no list of nodes")
    return Answer(alive >= expected.ray_nodes, f"{alive} of {expected.ray_nodes} nodes")


def _nothing(port: int, reason: str) -> Answer:
    late = reason == LATE
    return Answer(False, f"no answer on port {port}: {reason}" + (f" {_load()}" if late else ""), late=late)


def _load() -> str:
    waiting, cores = os.getloadavg()[0], os.cpu_count() or 1
    return f"(load {waiting:.0f} on {cores} cores)" if waiting > 2 * cores else ""


def _get(url: str, headers: dict[str, str]) -> tuple[int | None, bytes, str]:
    """Status, body and reason; no status where nothing answered. Never goes through a proxy: it is our own loopback."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, headers=headers), timeout=PROBE_SECONDS) as response:
            return response.status, response.read(), ""
    except urllib.error.HTTPError as error:
        return error.code, error.read(), error.reason
    except (OSError, urllib.error.URLError) as error:
        why = getattr(error, "reason", error)
        return None, b"", LATE if isinstance(why, TimeoutError) else str(why)
